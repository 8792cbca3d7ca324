#pragma once

#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

/// Plain vector quantization (VQ-VAE, VQGAN): nearest code, straight-through gradients, codebook
/// and commitment terms, beta on the commitment. With quantizer.normalise all of it is of latents
/// and codes divided by their norms, as in ViT-VQGAN; the codebook keeps its own lengths, 1 at the
/// start.
class VectorQuantizer : public Quantizer {
 public:
  VectorQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  torch::Tensor decode(const torch::Tensor& indices) override;
  int64_t codes() const override { return codebook_.size(0); }
  torch::Tensor code_vectors() override;
  torch::Tensor codebook() override { return codebook_; }
  Distance distance() const override;
  torch::Tensor compared(const torch::Tensor& latents) const override { return scaled(latents); }
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
  /// Index [N] of the code of each latent [N, d] among codes [K, d], both as `scaled` gives them.
  virtual torch::Tensor search(const torch::Tensor& rows, const torch::Tensor& codes,
                               NonFinite policy);
  /// Vectors along dimension 1 as they are searched for and decoded: themselves or, with
  /// quantizer.normalise, divided by their norms.
  torch::Tensor scaled(const torch::Tensor& vectors) const;
  QuantizerConfig config_;
  torch::Tensor codebook_;  ///< [K, d]
};

}  // namespace nsvq
