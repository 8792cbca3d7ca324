#include "nsvq/metrics/pixels.h"

namespace nsvq {

torch::Tensor to_pixels(const torch::Tensor& images, PixelRule rule) {
  const torch::NoGradGuard no_grad;
  const auto x = images.to(torch::kFloat).clamp(-1, 1);
  if (rule == PixelRule::unrounded) return (x + 1) * (kPixelRange / 2);
  // In the order of SimVQ's script: of its 256 levels x / 127.5 - 1, a few fall by one here.
  if (rule == PixelRule::truncated) return ((x + 1) / 2 * kPixelRange).floor();
  return ((x + 1) * (kPixelRange / 2) + 0.5).floor();
}

torch::Tensor to_network_input(const torch::Tensor& images, PixelRule rule) {
  const torch::NoGradGuard no_grad;
  if (rule == PixelRule::unrounded) return images.to(torch::kFloat).clamp(-1, 1);
  return to_pixels(images, rule) / (kPixelRange / 2) - 1;
}

void check_pair(const EvalBatch& batch) {
  const auto& images = batch.images;
  const auto& reconstructions = batch.reconstructions;
  TORCH_CHECK(images.defined() && images.dim() == 4, "metrics: images must be [B, C, H, W]");
  TORCH_CHECK(reconstructions.defined() && reconstructions.sizes() == images.sizes(),
              "metrics: reconstructions must have the shape of the images, ", images.sizes());
}

}  // namespace nsvq
