#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nsvq {

/// A codebook to look at: where its codes lie, and which of them stand for what in the run's sample
/// images.
struct CodeMap {
  std::string model;                         ///< the checkpoint it is of
  int64_t codes = 0;                         ///< of the codebook
  std::vector<int64_t> code;                 ///< those on the map: all of them, or the most used
  std::vector<float> x, y;                   ///< their places by the two main directions, 0 to 1
  double x_share = 0, y_share = 0;           ///< of the codes' variance, in each direction
  std::string no_places;                     ///< why there is no map, if so
  int64_t epoch = -1;                        ///< of the sample images, which have these tokens
  int64_t grid_height = 0, grid_width = 0;   ///< tokens of an image
  std::vector<std::vector<int64_t>> tokens;  ///< for each image, row by row
  std::string no_tokens;                     ///< why there are none, if so
};

}  // namespace nsvq
