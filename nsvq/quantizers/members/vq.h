#pragma once

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

/// Plain vector quantization (VQ-VAE, VQGAN): nearest code, straight-through gradients, codebook
/// and commitment terms, beta on the commitment.
class VectorQuantizer : public Quantizer {
 public:
  VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codebook_.size(0); }
  torch::Tensor codebook() override { return codebook_; }
  bool wants_data() const override { return starts_from_data(config_.init); }
  int64_t latents_wanted() const override { return latents_for_codes(config_.init, codes()); }
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  /// What moves the codes: gradients, then the codebook is a parameter, or statistics, then it is a
  /// buffer.
  enum class MovedBy { gradients, statistics };
  VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim, MovedBy moved_by);

  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;
  torch::Tensor encode_wide(const torch::Tensor& latents) override;
  /// Index [N] of the code of each latent [N, d].
  virtual torch::Tensor search(const torch::Tensor& rows, NonFinite policy);
  QuantizerConfig config_;
  torch::Tensor codebook_;  ///< [K, d]
};

}  // namespace nsvq
