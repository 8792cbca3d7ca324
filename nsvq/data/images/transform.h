#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "nsvq/io/images/image.h"

namespace nsvq {

enum class Crop { random, center };

/// How an image is resized, cropped and flipped.
struct TransformOptions {
  int size = 128;             ///< output is size x size, unless height or width is set
  Crop crop = Crop::center;   ///< where the window lies on the resized image
  bool flip = false;          ///< mirror left-right with probability 1/2
  int height = 0, width = 0;  ///< of a non-square output; 0 means size

  int output_height() const { return height != 0 ? height : size; }
  int output_width() const { return width != 0 ? width : size; }
};

/// Antialiased bilinear resize to width x height, equal bit for bit to Image.resize(BILINEAR) of
/// Pillow up to version 12: horizontally first, rounded to bytes, then vertically. (From version 13
/// on Pillow resizes vertically first if the height shrinks far more; single values then differ
/// by 1.)
Image resize_bilinear(const Image& image, int width, int height);

/// Resizes the image, keeping its proportions, to the smallest size that covers the output (for a
/// square: its short side becomes options.size), crops, maybe flips, and writes x / 127.5 - 1 as
/// planar floats [3, height, width] to `out`. Only the cropped window is computed. `seed` decides
/// the random crop and the flip.
void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<float> out);

/// Overload that writes bytes [3, height, width]; `pixel_levels()` maps each to the other
/// overload's float.
void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<uint8_t> out);

/// x / 127.5 - 1 for every byte x.
const std::array<float, 256>& pixel_levels();

}  // namespace nsvq
