#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nsvq {

/// A codebook to look at: a map of its codes, and which of them stand for what in the run's sample
/// images.
struct CodeMap {
  std::string model;                         ///< name of the checkpoint
  int64_t codes = 0;                         ///< in the codebook
  std::vector<int64_t> code;                 ///< those on the map: all of them, or the most used
  std::vector<float> x, y;                   ///< coordinates in the two main directions, 0 to 1
  double x_share = 0, y_share = 0;           ///< share of the codes' variance in each direction
  std::string no_map;                        ///< why there is no map, if so
  int64_t epoch = -1;                        ///< epoch of the sample images that have these tokens
  int64_t grid_height = 0, grid_width = 0;   ///< tokens of an image
  std::vector<std::vector<int64_t>> tokens;  ///< for each image, row by row
  std::string no_tokens;                     ///< why there are none, if so
};

/// The codebook of a run's newest model and the tokens of the images in its newest sample picture,
/// both computed on the CPU. What cannot be had is said in the map. Throws UserError if there is no
/// model that can be opened, or none with tokens.
CodeMap map_codes(const std::filesystem::path& run);

/// Coordinates of `vectors` [K, d] in the two directions of largest variance, [K, 2], and the
/// shares of the variance in them, [2]. A direction points to where its largest component is
/// positive.
struct MainDirections {
  torch::Tensor coordinates, shares;
};
MainDirections main_directions(const torch::Tensor& vectors);

}  // namespace nsvq
