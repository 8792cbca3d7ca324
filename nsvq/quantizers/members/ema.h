#pragma once

#include "nsvq/quantizers/members/vq.h"

namespace nsvq {

/// Codes as running means of their latents: ema, jukebox, soundstream.
struct RunningMeansConfig {
  double decay = 0.99;
  double smoothing = 1e-5;
};

/// Vector quantization whose codes are running means of the latents that chose them (VQ-VAE's
/// appendix A): counts and sums with `decay`, summed over ranks, the counts smoothed by
/// `smoothing`. No gradient moves the codes; the loss is beta times the commitment alone.
class EmaQuantizer : public VectorQuantizer {
 public:
  EmaQuantizer(const QuantizerConfig& config, int64_t latent_dim);

  void update_statistics(const StepOutputs& step) override;
  std::vector<torch::Tensor> statistics() override { return {codebook_, counts_, sums_}; }
  void rows_replaced(const torch::Tensor& rows) override;
  void initialise_from(const torch::Tensor& latents, uint64_t seed) override;

 protected:
  Quantized quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) override;

 private:
  RunningMeansConfig settings_;
  torch::Tensor counts_;  ///< [K]
  torch::Tensor sums_;    ///< [K, d]
};

std::vector<Option> running_means_options(QuantizerConfig& config);

}  // namespace nsvq
