#include "nsvq/quantizers/random_draws.h"

#include <ATen/Context.h>

namespace nsvq {

at::Generator generator_on(c10::Device device, uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

torch::Tensor gumbel_noise_like(const torch::Tensor& logits, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  // -log E for an exponential E, kept above 0, where the noise would be infinite.
  return at::empty_like(logits, at::MemoryFormat::Contiguous)
      .exponential_(1, generator_on(logits.device(), seed))
      .clamp_min_(1e-10)
      .log_()
      .neg_();
}

}  // namespace nsvq
