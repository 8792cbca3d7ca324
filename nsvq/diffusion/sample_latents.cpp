#include "nsvq/diffusion/sample_latents.h"

#include <utility>

namespace nsvq {

LatentSampling::LatentSampling(std::vector<SamplerStep> steps, const PredictionKind& prediction,
                               const NoiseDraws& noise)
    : steps_(std::move(steps)), prediction_(prediction), samples_(noise(0)) {}

void LatentSampling::step(const Denoiser& denoiser, const NoiseDraws& noise) {
  const torch::NoGradGuard no_grad;
  const auto& step = steps_.at(done_);
  const auto number = [&](double value) { return at::full({}, value, samples_.options()); };
  const auto times =
      at::full({samples_.size(0)}, step.at.time, samples_.options().dtype(at::kLong));
  const auto data = prediction_.data(denoiser(samples_, times), samples_,
                                     {number(step.at.signal()), number(step.at.noise())});
  auto next = samples_ * step.sample + data * step.data;
  if (step.previous != 0) next += data_before_ * step.previous;
  if (step.fresh != 0) next += noise(done_ + 1) * step.fresh;
  samples_ = next;
  data_before_ = data;
  ++done_;
}

torch::Tensor sample_latents(const std::vector<SamplerStep>& steps,
                             const PredictionKind& prediction, const Denoiser& denoiser,
                             const NoiseDraws& noise) {
  LatentSampling sampling(steps, prediction, noise);
  while (sampling.done() < sampling.steps()) sampling.step(denoiser, noise);
  return sampling.samples();
}

}  // namespace nsvq
