#pragma once

#include <torch/types.h>

#include <vector>

#include "nsvq/io/images/image.h"

namespace nsvq {

/// `chw` [3, H, W] in [-1, 1], on any device and of any type: rounded, clamped to 8 bits. NaN
/// becomes black.
Image to_image(const torch::Tensor& chw);
/// Images in [-1, 1] as bytes, rounded as `to_image` does, and back, on their device.
torch::Tensor to_bytes(const torch::Tensor& images);
torch::Tensor from_bytes(const torch::Tensor& bytes);

/// Rows of images in columns, with `gap` white pixels between them. A column is as wide as its
/// widest image, a row as high as its highest; white fills up smaller images and
/// shorter rows.
Image make_grid(const std::vector<std::vector<Image>>& rows, int gap = 2);

/// Every pixel becomes a block of `factor` by `factor`.
Image enlarge(const Image& image, int factor);

}  // namespace nsvq
