#include "nsvq/train/step_guard.h"

namespace nsvq {

namespace {

constexpr int64_t kNone = -1;
enum Count : int64_t { steps, first, refused, overflows };

/// In place: a recorded step reads and writes the same memory every time.
void set_where(const torch::Tensor& condition, const torch::Tensor& target,
               const torch::Tensor& value) {
  target.copy_(at::where(condition, value, target));
}

}  // namespace

StepGuard::StepGuard(c10::Device device, bool last)
    : last_(last),
      bad_(at::zeros({}, at::device(device).dtype(at::kBool))),
      stopped_(at::zeros_like(bad_)),
      counts_(at::tensor({int64_t{0}, kNone, int64_t{0}, int64_t{0}}, at::kLong).to(device)) {}

void StepGuard::keep(std::vector<torch::Tensor> state) {
  const torch::NoGradGuard no_grad;
  state_ = std::move(state);
  kept_.clear();
  for (const auto& tensor : state_) kept_.push_back(tensor.clone());
}

const torch::Tensor& StepGuard::judge(const GatheredScalars& scalars, const torch::Tensor& images,
                                      const torch::Tensor& curable) {
  const torch::NoGradGuard no_grad;
  remember(scalars, images);
  const auto found = at::isfinite(scalars.values).all().logical_not();
  const auto cured = curable.defined() ? found.logical_and(curable) : at::zeros_like(found);
  const auto refusal = found.logical_and(cured.logical_not());
  const auto earliest = refusal.logical_and(counts_[first].eq(kNone));
  set_where(earliest, values_, scalars.values);
  set_where(earliest, images_, images);
  set_where(earliest, counts_[first], counts_[steps]);
  counts_[steps].add_(1);
  counts_[refused].add_(refusal);
  counts_[overflows].add_(cured);
  bad_.copy_(found.logical_or(stopped_));
  if (last_) stopped_.logical_or_(refusal);
  return bad_;
}

void StepGuard::remember(const GatheredScalars& scalars, const torch::Tensor& images) {
  if (names_ != scalars.names) {
    names_ = scalars.names;
    values_ = at::zeros_like(scalars.values);
  }
  if (!images_.defined() || images_.sizes() != images.sizes()) images_ = at::zeros_like(images);
}

void StepGuard::restore() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < state_.size(); ++i) set_where(bad_, state_[i], kept_[i]);
  state_.clear();
  kept_.clear();
}

std::optional<RefusedSteps> StepGuard::read() {
  const auto counts = counts_.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  counts_.zero_();
  counts_[first].fill_(kNone);
  const auto count = [&](Count which) { return counts[which].item<int64_t>(); };
  if (count(refused) == 0 && count(overflows) == 0) return std::nullopt;
  RefusedSteps result{count(first), count(refused), count(overflows), {}, images_.clone()};
  const auto values = values_.to(at::kCPU);
  for (size_t i = 0; i < names_.size(); ++i) {
    result.values[names_[i]] = values[static_cast<int64_t>(i)].item<double>();
  }
  return result;
}

}  // namespace nsvq
