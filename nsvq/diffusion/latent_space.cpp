#include "nsvq/diffusion/latent_space.h"

#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/tokenizer/frozen_tokenizer.h"
#include "nsvq/tokenizer/model_file.h"

namespace nsvq {

LatentSpace::LatentSpace(LoadedModel model, const std::string& latents, c10::Device device)
    : model_(std::move(model)), codes_(latents == "codes") {
  auto& tokenizer = model_.tokenizer;
  if (codes_ && tokenizer->quantizer->codes() == 0) {
    throw UserError(
        "diffusion.latents is codes, but {} is a continuous autoencoder without codes; use encoder",
        model_.file.string());
  }
  sha256_ = model_sha256(tokenizer);
  freeze_on(model_, device);
}

torch::Tensor LatentSpace::encoder_output(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->to_latents(images);
}

torch::Tensor LatentSpace::encode(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto latents = encoder_output(images);
  return codes_ ? model_.tokenizer->quantizer->assign_without_waiting(latents).latents : latents;
}

torch::Tensor LatentSpace::from_tokens(const torch::Tensor& tokens) {
  const torch::NoGradGuard no_grad;
  return model_.tokenizer->quantizer->decode(tokens);
}

torch::Tensor LatentSpace::decode(const torch::Tensor& latents, bool quantise) {
  const torch::NoGradGuard no_grad;
  auto& tokenizer = *model_.tokenizer;
  return tokenizer.to_images(quantise ? tokenizer.quantizer->assign(latents).latents : latents);
}

std::vector<int64_t> LatentSpace::shape(int64_t size, int64_t unet_stride) const {
  const int64_t stride = model_.config.model.stride();
  if (size % (stride * unet_stride) != 0) {
    throw UserError(
        "data.size {} is not a multiple of {}: {} pixels a latent ({}), and a grid of them whose "
        "sides unet.multipliers divide by {}",
        size, stride * unet_stride, stride, model_.file.string(), unet_stride);
  }
  return {channels(), size / stride, size / stride};
}

LoadedModel load_tokenizer(const std::string& path) {
  return load_frozen_tokenizer(path, "diffusion.tokenizer");
}

LatentStatistics::LatentStatistics(int64_t channels, c10::Device device)
    : sums_(at::zeros({3, channels}, at::device(device).dtype(at::kDouble))) {}

void LatentStatistics::add(const torch::Tensor& latents) {
  const auto wide = latents.to(at::kDouble);
  const double count = static_cast<double>(latents.size(0) * latents.size(2) * latents.size(3));
  sums_ += at::stack(
      {at::full_like(sums_[0], count), wide.sum({0, 2, 3}), wide.square().sum({0, 2, 3})});
}

torch::Tensor LatentStatistics::mean() const { return (sums_[1] / sums_[0]).to(at::kFloat); }

torch::Tensor LatentStatistics::deviation() const {
  const auto mean = sums_[1] / sums_[0];
  const auto variance = (sums_[2] / sums_[0] - mean.square()).clamp_min(0);
  // Sums of squares of a constant cancel but for rounding.
  const auto constant = variance.le(1e-12 * (sums_[2] / sums_[0]));
  return at::where(constant, at::ones_like(variance), variance.sqrt()).to(at::kFloat);
}

}  // namespace nsvq
