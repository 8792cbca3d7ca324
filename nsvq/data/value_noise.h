#pragma once

#include <span>
#include <vector>

#include "nsvq/core/random.h"

namespace nsvq {

/// Texture with a 1/f spectrum: octaves of random lattices, smoothly interpolated, all of the same
/// strength. Lattice cells go from a quarter of the image's side down to one pixel.
class ValueNoise {
 public:
  explicit ValueNoise(int image_size);

  /// A new texture for a window of at most image_size x image_size pixels.
  void draw(Random& random, int width, int height);
  /// One row of it, about -1 to 1 (standard deviation a third).
  void row(int y, std::span<float> out);

 private:
  struct Octave {
    int cell = 0;  // a power of two
    int phase_x = 0, phase_y = 0;
    int columns = 0;
    std::vector<float> weights;  // of the right neighbour, for each pixel of a cell
    std::vector<float> lattice;  // [rows, columns]
  };

  std::vector<Octave> octaves_;
  std::vector<float> line_;
  float scale_ = 0;
};

}  // namespace nsvq
