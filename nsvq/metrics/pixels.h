#pragma once

#include <torch/types.h>

#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/metric.h"

namespace nsvq {

/// Metrics keep values of 0 to 255, whose sums are exact where they are whole numbers. Papers
/// divide by 255 and use a data range of 1, which is the same.
constexpr double kPixelRange = 255;

/// Images in [-1, 1] to values of 0 to 255 as fp32, on the same device. NaN stays NaN.
torch::Tensor to_pixels(const torch::Tensor& images, PixelRule rule = PixelRule::rounded);

/// The same values, back in [-1, 1], as networks take them.
torch::Tensor to_network_input(const torch::Tensor& images, PixelRule rule);

/// Throws c10::Error if the images of a batch and their reconstructions are not [B, C, H, W] of one
/// shape.
void check_pair(const EvalBatch& batch);

}  // namespace nsvq
