#pragma once

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

struct FsqConfig {
  std::vector<int64_t> levels = {8, 8, 8, 5, 5, 5};
};

/// Finite scalar quantization: each channel is bounded and rounded to one of its levels. Nothing is
/// searched, nothing trains, and there is no loss.
class FiniteScalarQuantizer : public Quantizer {
 public:
  FiniteScalarQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codes_; }
  // No code_vectors(): latents are bounded first, so that their distance to a code says nothing.

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  torch::Tensor bounded(const torch::Tensor& latents) const;
  torch::Tensor rounded(const torch::Tensor& bounded) const;
  torch::Tensor indices_of(const torch::Tensor& rounded) const;

  int64_t codes_;
  torch::Tensor levels_;  ///< [d, 1, 1]
};

QuantizerKind fsq_kind();

}  // namespace nsvq
