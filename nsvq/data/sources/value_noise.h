#pragma once

#include <span>
#include <vector>

#include "nsvq/core/random.h"

namespace nsvq {

/// Texture with a 1/f spectrum: a sum of octaves of equal amplitude, each a smoothly interpolated
/// random lattice, with cells from a quarter of the image's side down to one pixel.
class ValueNoise {
 public:
  explicit ValueNoise(int image_size);

  /// A new texture for a window of at most image_size x image_size pixels.
  void draw(Random& random, int width, int height);
  /// Writes row y of the texture: values of about -1 to 1, standard deviation 1/3.
  void row(int y, std::span<float> out);

 private:
  struct Octave {
    int cell = 0;  // a power of two
    int phase_x = 0, phase_y = 0;
    int columns = 0;
    std::vector<float>
        weights;  // interpolation weight of the right neighbour, for each pixel of a cell
    std::vector<float> lattice;  // [rows, columns]
  };

  std::vector<Octave> octaves_;
  std::vector<float> line_;
  float scale_ = 0;
};

}  // namespace nsvq
