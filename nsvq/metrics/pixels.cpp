#include "nsvq/metrics/pixels.h"

namespace nsvq {

torch::Tensor to_pixels(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto values = (images.to(torch::kFloat) + 1) * (kPixelRange / 2);
  return values.clamp(0, kPixelRange).round();
}

PixelPair to_pixels(const EvalBatch& batch) {
  const auto& images = batch.images;
  const auto& reconstructions = batch.reconstructions;
  TORCH_CHECK(images.defined() && images.dim() == 4, "metrics: images must be [B, C, H, W]");
  TORCH_CHECK(reconstructions.defined() && reconstructions.sizes() == images.sizes(),
              "metrics: reconstructions must have the shape of the images, ", images.sizes());
  return {to_pixels(images), to_pixels(reconstructions)};
}

}  // namespace nsvq
