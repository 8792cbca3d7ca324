#pragma once

#include <torch/types.h>

#include "nsvq/metrics/metric.h"

namespace nsvq {

/// How metrics see an image: as the 8-bit values a picture file would hold. The one place for this
/// convention: x in [-1, 1] becomes (x + 1) * 127.5, clamped to [0, 255] and rounded to the nearest
/// integer (a tie to the even one). Papers divide by 255 and use a data range of 1; metrics here
/// keep the integers, whose sums are exact, and a range of 255, which is the same.
constexpr double kPixelRange = 255;

/// Images in [-1, 1] to whole numbers 0..255 as fp32, on the same device. NaN stays NaN.
torch::Tensor to_pixels(const torch::Tensor& images);

/// The pixels of a batch, both [B, C, H, W]; throws c10::Error if the shapes are not such.
struct PixelPair {
  torch::Tensor images, reconstructions;
};
PixelPair to_pixels(const EvalBatch& batch);

}  // namespace nsvq
