#pragma once

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/mapped.h"

namespace nsvq {

struct AffineConfig {
  std::string variant = "learned";
  double rate = 10;
  double momentum = 0.1;
};

/// Affine reparameterisation: a trained codebook behind a scale and a shift per channel that all
/// codes share. Variant "learned": both are parameters. Variant "running": they take the codes'
/// mean and variance to the latents', both as running statistics.
class AffineQuantizer : public MappedQuantizer {
 public:
  AffineQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  int64_t codes() const override { return codes_.size(0); }
  // No codebook() for replacements: what they put there would not be where the map takes it.
  void update_statistics(const StepOutputs& step) override;
  std::vector<torch::Tensor> statistics() override;
  bool wants_data() const override { return starts_from_data(config_.init); }
  int64_t latents_wanted() const override { return latents_for_codes(config_.init, codes()); }
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor mapped_codes() override;

 private:
  bool learned() const { return settings_.variant == "learned"; }

  AffineConfig settings_;
  double weight_;                ///< of the embedding term
  torch::Tensor codes_;          ///< [K, d] before the map
  torch::Tensor scale_, shift_;  ///< learned: [d]
  torch::Tensor statistics_;     ///< running: [4, d], rows as in affine.cpp
  torch::Tensor started_;        ///< running: whether there are statistics, 0 or 1
};

QuantizerKind affine_kind();

}  // namespace nsvq
