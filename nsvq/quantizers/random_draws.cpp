#include "nsvq/quantizers/random_draws.h"

#include <ATen/Context.h>

#include <cmath>

#include "nsvq/ops/seeded_values.h"

namespace nsvq {

namespace {

/// A generator of its own, so that what is drawn depends on the seed alone.
at::Generator generator_on(c10::Device device, uint64_t seed) {
  auto generator = at::globalContext().defaultGenerator(device).clone();
  generator.set_current_seed(seed);
  return generator;
}

}  // namespace

torch::Tensor draw_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed) {
  const int64_t n = rows.size(0);
  TORCH_CHECK(n > 0, "draw_rows: there are no rows to draw from");
  const int64_t copies = (count + n - 1) / n;
  // An order by random keys: at::randperm may wait for the device.
  const auto keys = uniform_values(seed, /*draw=*/0, copies * n);
  const auto order = at::argsort(keys, /*stable=*/true).slice(0, 0, count);
  const auto drawn = rows.index_select(0, order.remainder(n));
  if (copies <= 1) return drawn;
  const double deviation = 0.01 / std::sqrt(static_cast<double>(rows.size(1)));
  const auto noise = normal_values(seed, /*draw=*/1, drawn.numel()).view_as(drawn);
  return drawn + noise.to(drawn.scalar_type()) * deviation;
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
