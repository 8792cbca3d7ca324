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
  Crop crop = Crop::center;   ///< position of the window on the resized image
  bool flip = false;          ///< mirror left-right with probability 1/2
  int height = 0, width = 0;  ///< for a non-square output; 0: size

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

/// Writes bytes [3, height, width], which `pixel_levels()` maps to the floats of the overload
/// above.
void transform(const Image& image, const TransformOptions& options, uint64_t seed,
               std::span<uint8_t> out);

/// x / 127.5 - 1 for every byte x.
const std::array<float, 256>& pixel_levels();

/// How the sides of an image are made multiples of the model's stride.
enum class Fit {
  resize,  ///< each side to the nearest multiple of the stride
  crop,    ///< centre crop, each side down to a multiple
  pad,     ///< reflection at the right and the bottom, up to a multiple; crop_corner undoes it
};

/// Throws UserError for an empty image, and if cropping would leave no pixel.
Image fit_to_stride(const Image& image, Fit fit, int stride);

/// The top left width x height pixels. Throws UserError if the image is smaller.
Image crop_corner(const Image& image, int width, int height);

}  // namespace nsvq
