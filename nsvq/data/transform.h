#pragma once

#include <cstdint>
#include <span>

#include "nsvq/io/image.h"

namespace nsvq {

enum class Crop { random, center };

/// How an image becomes a training example.
struct TransformOptions {
  int size = 128;            ///< output is size x size
  Crop crop = Crop::center;  ///< where the window lies on the resized image
  bool flip = false;         ///< mirror left-right with probability 1/2
};

/// Antialiased bilinear resize to width x height, equal bit for bit to Image.resize(BILINEAR) of
/// Pillow up to version 12: rows first, rounded to bytes, then columns. (From 13 on Pillow takes
/// the columns first where the height shrinks far more; single values then differ by 1.)
Image resize_bilinear(const Image& image, int width, int height);

/// Resizes the short side to options.size, crops, maybe flips, and writes x / 127.5 - 1 as planar
/// floats [3, size, size] to `out`. Only the cropped window is computed. `seed` decides the random
/// crop and the flip.
void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<float> out);

}  // namespace nsvq
