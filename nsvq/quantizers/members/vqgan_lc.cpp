#include <fmt/ranges.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/io/formats/safetensors.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/members/mapped.h"

namespace nsvq {

namespace {

/// VQGAN-LC (Zhu et al., 2024): codes are a trained linear projection of frozen features [K, dim]
/// of images. A run reads the features from quantizer.features.file when it begins; from then on
/// they are in its checkpoints. Loss: |z - sg c|^2 + 0.33 |sg z - c|^2.
class FeatureQuantizer : public MappedQuantizer {
 public:
  FeatureQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return features_.size(0); }
  void begin() override;

 protected:
  torch::Tensor mapped_codes() override;
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  FeaturesConfig settings_;
  torch::nn::Linear projection_{nullptr};
  torch::Tensor features_;  ///< [K, dim], 0 until they are read
};

constexpr double kCodebookWeight = 0.33;

TensorMap read_made_file(const std::string& path) {
  try {
    return read_safetensors(path).tensors;
  } catch (const UserError& error) {
    throw UserError(
        "quantizer.features.file: {}; it must be the safetensors file that nsvq codebook features "
        "makes",
        error.what());
  }
}

/// Throws UserError.
torch::Tensor read_features(const std::string& path, int64_t codes, int64_t dim) {
  if (path.empty()) {
    throw UserError(
        "quantizer.type is vqgan_lc, so quantizer.features.file must name a file with a tensor "
        "'features' [{0}, {1}]; `nsvq weights get lpips-vgg` and `nsvq codebook features --net vgg "
        "--data IMAGES --codes {0} --out features.safetensors` make one, for "
        "quantizer.features.file=features.safetensors quantizer.features.dim=512",
        codes, dim);
  }
  if (!std::filesystem::exists(path)) {
    throw UserError("quantizer.features.file: {} is not there; nsvq codebook features makes one",
                    path);
  }
  const auto tensors = read_made_file(path);
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
  if (!features.is_floating_point()) {
    throw UserError("quantizer.features.file: {}: 'features' must be of a floating-point type",
                    path);
  }
  if (!at::isfinite(features).all().item<bool>()) {
    throw UserError("quantizer.features.file: {}: 'features' must hold finite numbers", path);
  }
  return features;
}

std::vector<Option> features_options(QuantizerConfig& config) {
  auto& features = config.of<FeaturesConfig>();
  return {
      {"quantizer.features.file", &features.file,
       "vqgan_lc: safetensors with the features, [codes, dim]; `nsvq codebook features` makes one",
       Range::any_path("path"), Effect::not_on_result},
      {"quantizer.features.dim", &features.dim, "numbers in a feature", Range::between(1, 65536)},
  };
}

}  // namespace

FeatureQuantizer::FeatureQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : MappedQuantizer(config),
      settings_(config.of<FeaturesConfig>()),
      projection_(register_module("projection", torch::nn::Linear(settings_.dim, latent_dim))),
      features_(register_buffer("features", at::zeros({config.codes, settings_.dim}))) {
  // The weights of fit_codes: 0.33 [embedding + commitment / 0.33].
  config_.beta = 1 / kCodebookWeight;
  torch::nn::init::normal_(projection_->weight, 0, 1 / std::sqrt(static_cast<double>(latent_dim)));
}

void FeatureQuantizer::begin() {
  features_.copy_(read_features(settings_.file, features_.size(0), settings_.dim));
}

torch::Tensor FeatureQuantizer::mapped_codes() { return projection_->forward(features_); }

Quantized FeatureQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  auto result = MappedQuantizer::quantize_wide(latents, step);
  result.loss = kCodebookWeight * result.loss;
  return result;
}

QuantizerKind vqgan_lc_kind() {
  return {.name = "vqgan_lc",
          .summary = "frozen features behind a trained projection (VQGAN-LC)",
          .make = make_member<FeatureQuantizer>,
          .options = features_options,
          .defaults = {"loss.vq=0.1"},
          .codebook = false,
          .weighs_commitment = false,
          .small = {"quantizer.features.dim=9"}};
}

}  // namespace nsvq
