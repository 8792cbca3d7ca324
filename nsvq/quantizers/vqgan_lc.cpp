#include "nsvq/quantizers/vqgan_lc.h"

#include <fmt/ranges.h>
#include <torch/nn/init.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/io/safetensors.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/fit.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

constexpr double kCodebookWeight = 0.33;

/// Throws UserError.
torch::Tensor read_features(const std::string& path, int64_t codes, int64_t dim) {
  if (path.empty()) {
    throw UserError(
        "quantizer.type is vqgan_lc, so quantizer.features.file must name a safetensors file with "
        "a tensor 'features' [{}, {}]",
        codes, dim);
  }
  const auto tensors = read_safetensors(path).tensors;
  const auto found = tensors.find("features");
  if (found == tensors.end()) {
    throw UserError("quantizer.features.file: {}: holds no tensor 'features'", path);
  }
  const auto& features = found->second;
  if (features.sizes() != at::IntArrayRef({codes, dim})) {
    throw UserError(
        "quantizer.features.file: {}: 'features' is [{}], but quantizer.codes and "
        "quantizer.features.dim ask for [{}, {}]",
        path, fmt::join(features.sizes().vec(), ", "), codes, dim);
  }
  if (!features.is_floating_point() || !at::isfinite(features).all().item<bool>()) {
    throw UserError("quantizer.features.file: {}: 'features' must hold finite numbers", path);
  }
  return features;
}

}  // namespace

FeatureQuantizer::FeatureQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : config_(config),
      projection_(
          register_module("projection", torch::nn::Linear(config.features.dim, latent_dim))),
      features_(register_buffer("features", at::zeros({config.codes, config.features.dim}))) {
  config_.beta = 1 / kCodebookWeight;  // the commitment's weight is 1 in the end
  torch::nn::init::normal_(projection_->weight, 0, 1 / std::sqrt(static_cast<double>(latent_dim)));
}

void FeatureQuantizer::begin() {
  features_.copy_(read_features(config_.features.file, features_.size(0), config_.features.dim));
}

Quantized FeatureQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto all = projection_->forward(features_);
  const auto found = nearest_indices(flatten_latents(latents.detach()), all.detach(), config_);
  const auto indices = to_places(found, latents);
  auto result = fit_codes(look_up(all, indices), indices, latents, config_, step);
  result.loss = kCodebookWeight * result.loss;
  return result;
}

torch::Tensor FeatureQuantizer::code_vectors() {
  const torch::NoGradGuard no_grad;
  return projection_->forward(features_);
}

torch::Tensor FeatureQuantizer::encode_wide(const torch::Tensor& latents) {
  return to_places(nearest_indices(flatten_latents(latents), code_vectors(), config_), latents);
}

torch::Tensor FeatureQuantizer::decode(const torch::Tensor& indices) {
  return look_up(code_vectors(), indices);
}

}  // namespace nsvq
