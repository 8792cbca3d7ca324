#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// The paper's quantizer loss of codes that train: fit_codes plus alpha times the NS loss, by the
/// recipe's kernel (quantizer.kernel), temperature (quantizer.tau, quantizer.tau_of_nearest) and
/// weight (quantizer.alpha, quantizer.alpha_relative).
class NeighbourLoss {
 public:
  /// With quantizer.tau_of_nearest it registers the running mean in `owner`, as a buffer.
  NeighbourLoss(const QuantizerConfig& config, torch::nn::Module& owner);

  /// Search among the codes [K, d] and fitting, whose gradient reaches what makes the codes.
  Quantized fit(const torch::Tensor& codes, const torch::Tensor& latents,
                const QuantizerStep& step) const;

  /// Moves the running mean, which is equal on all ranks, by the distances of a step's latents to
  /// their codes. Only to be called if there is one.
  void update(const torch::Tensor& codes, const StepOutputs& step);
  bool has_running_mean() const { return nearest_.defined(); }
  /// What `update` changes.
  std::vector<torch::Tensor> statistics() const;

 private:
  struct Found {
    torch::Tensor indices;  ///< [N]
    torch::Tensor ns;       ///< the NS loss, with a gradient for the codes
  };
  Found search(const torch::Tensor& latents, const torch::Tensor& codes) const;
  torch::Tensor temperature(const torch::Tensor& latents) const;
  torch::Tensor weight(const Found& found, const torch::Tensor& latents,
                       const torch::Tensor& codes) const;

  QuantizerConfig config_;
  /// Running mean of the squared distance of latents to their codes, fp32; 0 before the first
  /// step. Undefined without quantizer.tau_of_nearest.
  torch::Tensor nearest_;
};

/// The NS loss with the unnormalised weights exp(-d_ij / tau) of the paper's appendix in place of
/// the softmax, for winners [N]; its gradient reaches the codes [K, d] alone. tau is a scalar on
/// the latents' device. Works through the latents in chunks: no N x K matrix is kept.
torch::Tensor gaussian_ns_loss(const torch::Tensor& latents, const torch::Tensor& codes,
                               const torch::Tensor& indices, const torch::Tensor& tau);

}  // namespace nsvq
