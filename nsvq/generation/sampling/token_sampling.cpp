#include "nsvq/generation/sampling/token_sampling.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "nsvq/core/lookup.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/random/seeded_random.h"

namespace nsvq {

namespace {

double constant_weight(const SamplingConfig& sampling, int64_t /*step*/, int64_t /*steps*/) {
  return sampling.guidance;
}

double linear_weight(const SamplingConfig& sampling, int64_t step, int64_t steps) {
  return 1 + (sampling.guidance - 1) * static_cast<double>(step + 1) / static_cast<double>(steps);
}

double power_cosine_weight(const SamplingConfig& sampling, int64_t step, int64_t steps) {
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  const double turned = std::cos(std::numbers::pi * std::pow(done, sampling.guidance_power));
  return 1 + (sampling.guidance - 1) * (1 - turned) / 2;
}

torch::Tensor without_tail(const torch::Tensor& logits, double top_p) {
  const auto [sorted, codes] = logits.sort(/*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const auto shares = sorted.softmax(-1);
  const auto before = shares.cumsum(-1) - shares;
  const auto kept = sorted.masked_fill(before.gt(top_p), -std::numeric_limits<double>::infinity());
  return at::empty_like(logits).scatter_(-1, codes, kept);
}

}  // namespace

const std::vector<GuidanceSchedule>& guidance_schedules() {
  static const std::vector<GuidanceSchedule> schedules = {
      {"constant", "w at every step", constant_weight},
      {"linear", "from nearly 1 to w", linear_weight},
      {"power-cosine", "1 + (w - 1) (1 - cos(pi (step / steps)^p)) / 2", power_cosine_weight},
  };
  return schedules;
}

torch::Tensor guidance_weights(const SamplingConfig& sampling, int64_t steps, c10::Device device) {
  const auto& schedule = find_named(guidance_schedules(), "schedule", sampling.guidance_schedule,
                                    "sampling.guidance_schedule");
  std::vector<double> weights;
  for (int64_t i = 0; i < steps; ++i) weights.push_back(schedule.weight(sampling, i, steps));
  return at::tensor(weights, at::kFloat).to(device);
}

torch::Tensor guided(const torch::Tensor& both, const torch::Tensor& weight) {
  const auto halves = both.chunk(2);
  return halves[1] + weight * (halves[0] - halves[1]);
}

torch::Tensor numbered_seeds(const torch::Tensor& seeds, const torch::Tensor& numbers) {
  TORCH_CHECK(seeds.scalar_type() == at::kLong && numbers.scalar_type() == at::kLong &&
                  seeds.device() == numbers.device(),
              "numbered_seeds: seeds and numbers must be int64 on one device, but they are ",
              seeds.scalar_type(), " on ", seeds.device(), " and ", numbers.scalar_type(), " on ",
              numbers.device());
  using Numbered = torch::Tensor(const torch::Tensor&, const torch::Tensor&);
  static const auto op = operator_named<Numbered>("nsvq::numbered_seeds");
  return op.call(seeds, numbers);
}

torch::Tensor gumbel_rows(const torch::Tensor& seeds, int64_t count) {
  constexpr double kLeast = 0x1p-25;  // half the distance of neighbouring numbers
  return uniform_rows(seeds, /*draw=*/0, count).clamp_min_(kLeast).log_().neg_().log_().neg_();
}

torch::Tensor filtered_logits(torch::Tensor logits, const SamplingConfig& sampling) {
  if (sampling.temperature != 1) logits = logits / sampling.temperature;
  if (sampling.top_k > 0 && sampling.top_k < logits.size(-1)) {
    const auto least = std::get<0>(logits.topk(sampling.top_k, -1)).narrow(-1, -1, 1);
    logits = logits.masked_fill(logits.lt(least), -std::numeric_limits<double>::infinity());
  }
  return sampling.top_p < 1 ? without_tail(logits, sampling.top_p) : logits;
}

torch::Tensor drawn_codes(const torch::Tensor& logits, const torch::Tensor& seeds) {
  return (logits + gumbel_rows(seeds, logits.size(1))).argmax(1);
}

}  // namespace nsvq
