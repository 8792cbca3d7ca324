#pragma once

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

struct LfqConfig {
  int64_t bits = 16;
  double entropy = 0.1;
  double diversity = 1;
  double temperature = 0.01;
};

/// Lookup-free quantization: a code is the signs of a latent, one bit a channel. Nothing in it
/// trains; commitment and entropy terms move the encoder.
class LookupFreeQuantizer : public Quantizer {
 public:
  LookupFreeQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return int64_t{1} << settings_.bits; }
  // No code_vectors(): they are too many to list, and the nearest one is the signs.

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;

 private:
  LfqConfig settings_;
  double beta_;
};

QuantizerKind lfq_kind();

}  // namespace nsvq
