#include "nsvq/tokenizer/tokenizer.h"

#include "nsvq/core/random.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

TokenizerImpl::TokenizerImpl(const TokenizerConfig& config)
    : opponent_colors(config.model.colors == "opponent"),
      unit_range(config.model.range == "unit"),
      encoder(register_module("encoder", Encoder(config.model))),
      quantizer(
          register_module("quantizer", make_quantizer(config.quantizer, config.model.latent_dim))),
      decoder(register_module("decoder", Decoder(config.model))) {}

torch::Tensor TokenizerImpl::encode(const torch::Tensor& images) {
  return quantizer->encode(to_latents(images));
}

torch::Tensor TokenizerImpl::encode_without_waiting(const torch::Tensor& images) {
  return quantizer->encode_without_waiting(to_latents(images));
}

torch::Tensor TokenizerImpl::decode(const torch::Tensor& indices) {
  return to_images(quantizer->decode(indices));
}

TokenizerImpl::Reconstruction TokenizerImpl::reconstruct(const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto assigned = quantizer->assign(to_latents(images));
  return {to_images(assigned.latents), assigned.indices};
}

TokenizerImpl::Reconstruction TokenizerImpl::reconstruct_without_waiting(
    const torch::Tensor& images) {
  const torch::NoGradGuard no_grad;
  const auto assigned = quantizer->assign_without_waiting(to_latents(images));
  return {to_images(assigned.latents), assigned.indices};
}

torch::Tensor TokenizerImpl::to_latents(const torch::Tensor& images) {
  const AutocastGuard autocast(precision, images.device());
  const auto seen = unit_range ? (images + 1) / 2 : images;
  return at_least_fp32(encoder->forward(opponent_colors ? to_opponent_colors(seen) : seen));
}

torch::Tensor TokenizerImpl::to_images(const torch::Tensor& latents) {
  const AutocastGuard autocast(precision, latents.device());
  const auto made = at_least_fp32(decoder->forward(latents));
  const auto images = opponent_colors ? from_opponent_colors(made) : made;
  return unit_range ? images * 2 - 1 : images;
}

Precision precision_on(const RunConfig& config, c10::Device device) {
  const auto& name = config.train.precision;
  const bool gpu_only = name == "fp16" || name == "tf32";
  return choose_precision(device.is_cpu() && gpu_only ? "fp32" : name, device);
}

void move_to_device(Tokenizer& tokenizer, const TokenizerConfig& config, c10::Device device) {
  tokenizer->to(device);
  use_gpu_layout(*tokenizer);
  tokenizer->precision = precision_on(config, device);
}

Tokenizer make_tokenizer(const TokenizerConfig& config, c10::Device device) {
  const SeedGuard seeded(seed_for(config.seed, Draw::weights));
  choose_precision(config.train.precision, device);  // throws where the device lacks it
  Tokenizer tokenizer(config);
  tokenizer->encoder->recompute = tokenizer->decoder->recompute = config.train.recompute;
  move_to_device(tokenizer, config, device);
  return tokenizer;
}

Tokenizer make_average(const TokenizerConfig& config, c10::Device device) {
  const SeedGuard apart;
  Tokenizer average(config);
  move_to_device(average, config, device);
  return average;
}

namespace {

constexpr double kOrange = 3, kGreen = 8;

torch::Tensor joined_colors(const std::vector<torch::Tensor>& channels, const torch::Tensor& like) {
  return at::stack(channels, 1).contiguous(like.suggest_memory_format());
}

}  // namespace

torch::Tensor to_opponent_colors(const torch::Tensor& images) {
  const auto red = images.select(1, 0), green = images.select(1, 1), blue = images.select(1, 2);
  return joined_colors({(red + green + blue) / 3, (red - blue) * (kOrange / 2),
                        (green - (red + blue) / 2) * (kGreen / 2)},
                       images);
}

torch::Tensor from_opponent_colors(const torch::Tensor& channels) {
  const auto brightness = channels.select(1, 0);
  const auto orange = channels.select(1, 1) / kOrange;            // half of red - blue
  const auto green = channels.select(1, 2) * (2 / (3 * kGreen));  // green - brightness, halved
  return joined_colors(
      {brightness - green + orange, brightness + 2 * green, brightness - green - orange}, channels);
}

}  // namespace nsvq
