#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// Rounds `chw` [3, H, W] in [-1, 1], on any device and of any type, to 8 bits, clamped. NaN
/// becomes black.
Image to_image(const torch::Tensor& chw);
/// Converts images in [-1, 1] to bytes, rounded like to_image, and back to floats, on their device.
torch::Tensor to_bytes(const torch::Tensor& images);
/// To bytes of which the rest is cut off, as a cast to uint8 does it.
torch::Tensor to_bytes_below(const torch::Tensor& images);
torch::Tensor from_bytes(const torch::Tensor& bytes);

/// Rows of images, aligned in columns, with `gap` white pixels between them. A column is as wide as
/// its widest image, a row as high as its highest; smaller images and shorter rows are padded with
/// white.
Image make_grid(const std::vector<std::vector<Image>>& rows, int gap = 2);

/// Images row by row, in as square a grid as their number allows.
Image make_square_grid(const std::vector<Image>& images);
/// Such a grid for images [B, 3, H, W] in [-1, 1].
Image make_square_grid(const torch::Tensor& images);
/// Columns of that grid.
int64_t square_columns(int64_t images);

/// Enlarges every pixel to a block of `factor` x `factor`.
Image enlarge(const Image& image, int factor);

}  // namespace nsvq
