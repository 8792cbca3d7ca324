#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "nsvq/diffusion/prediction.h"
#include "nsvq/diffusion/sampler.h"

namespace nsvq {

/// A network's output for noisy data [B, ...] at times [B], int64 on the same device.
using Denoiser =
    std::function<torch::Tensor(const torch::Tensor& noisy, const torch::Tensor& times)>;
/// Standard normal noise [B, ...]; number 0 is what sampling starts from, 1, 2, ... are fresh.
using NoiseDraws = std::function<torch::Tensor(int64_t number)>;

/// Samples in progress, in the type and on the device of the noise that they start from.
class LatentSampling {
 public:
  LatentSampling(std::vector<SamplerStep> steps, const PredictionKind& prediction,
                 const NoiseDraws& noise);

  int64_t steps() const { return std::ssize(steps_); }
  int64_t done() const { return done_; }
  /// The next step.
  void step(const Denoiser& denoiser, const NoiseDraws& noise);
  /// The samples after the steps that are done.
  const torch::Tensor& samples() const { return samples_; }

 private:
  std::vector<SamplerStep> steps_;
  const PredictionKind& prediction_;
  int64_t done_ = 0;
  torch::Tensor samples_, data_before_;
};

/// All steps, without gradients.
torch::Tensor sample_latents(const std::vector<SamplerStep>& steps,
                             const PredictionKind& prediction, const Denoiser& denoiser,
                             const NoiseDraws& noise);

}  // namespace nsvq
