#include "nsvq/train/steps/step_guard.h"

namespace nsvq {

namespace {

constexpr int64_t kNone = -1;
enum Count : int64_t { steps, first, skipped, overflows };

/// In place: a captured CUDA graph reads and writes the same memory every time.
void set_where(const torch::Tensor& condition, const torch::Tensor& target,
               const torch::Tensor& value) {
  target.copy_(at::where(condition, value, target));
}

}  // namespace

StepGuard::StepGuard(c10::Device device, bool stop_at_first)
    : stop_at_first_(stop_at_first),
      skip_(at::zeros({}, at::device(device).dtype(at::kBool))),
      stopped_(at::zeros_like(skip_)),
      counts_(at::tensor({int64_t{0}, kNone, int64_t{0}, int64_t{0}}, at::kLong).to(device)) {}

void StepGuard::snapshot(std::vector<torch::Tensor> state) {
  const torch::NoGradGuard no_grad;
  state_ = std::move(state);
  copies_.clear();
  for (const auto& tensor : state_) copies_.push_back(tensor.clone());
}

const torch::Tensor& StepGuard::check_finite(const GatheredScalars& scalars,
                                             const std::vector<torch::Tensor>& batch,
                                             const torch::Tensor& overflow_curable) {
  const torch::NoGradGuard no_grad;
  reserve(scalars, batch);
  const auto found = at::isfinite(scalars.values).all().logical_not();
  const auto cured =
      overflow_curable.defined() ? found.logical_and(overflow_curable) : at::zeros_like(found);
  const auto refusal = found.logical_and(cured.logical_not());
  const auto earliest = refusal.logical_and(counts_[first].eq(kNone));
  set_where(earliest, values_, scalars.values);
  for (size_t i = 0; i < batch.size(); ++i) set_where(earliest, batch_[i], batch[i]);
  set_where(earliest, counts_[first], counts_[steps]);
  counts_[steps].add_(1);
  counts_[skipped].add_(refusal);
  counts_[overflows].add_(cured);
  skip_.copy_(found.logical_or(stopped_));
  if (stop_at_first_) stopped_.logical_or_(refusal);
  return skip_;
}

void StepGuard::reserve(const GatheredScalars& scalars, const std::vector<torch::Tensor>& batch) {
  if (names_ != scalars.names) {
    names_ = scalars.names;
    values_ = at::zeros_like(scalars.values);
  }
  batch_.resize(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch_[i].defined() && batch_[i].sizes() == batch[i].sizes()) continue;
    batch_[i] = at::zeros_like(batch[i]);
  }
}

void StepGuard::rollback() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < state_.size(); ++i) set_where(skip_, state_[i], copies_[i]);
  state_.clear();
  copies_.clear();
}

std::optional<SkippedSteps> StepGuard::read() {
  const auto counts = counts_.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  counts_.zero_();
  counts_[first].fill_(kNone);
  const auto count = [&](Count which) { return counts[which].item<int64_t>(); };
  if (count(skipped) == 0 && count(overflows) == 0) return std::nullopt;
  SkippedSteps result{count(first), count(skipped), count(overflows), {}, {}};
  for (const auto& tensor : batch_) result.batch.push_back(tensor.clone());
  const auto values = values_.to(at::kCPU);
  for (size_t i = 0; i < names_.size(); ++i) {
    result.values[names_[i]] = values[static_cast<int64_t>(i)].item<double>();
  }
  return result;
}

}  // namespace nsvq
