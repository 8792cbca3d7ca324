#include "nsvq/train/steps/loss_scale.h"

#include "nsvq/train/steps/adam.h"

namespace nsvq {

namespace {

constexpr double kFirstFactor = 65536;
constexpr int64_t kStepsToGrow = 2000;

}  // namespace

LossScale::LossScale(Precision precision, c10::Device device) {
  if (precision != Precision::fp16) return;
  factor_ = at::full({}, kFirstFactor, at::device(device).dtype(at::kFloat));
  steps_ = at::zeros({}, at::device(device).dtype(at::kLong));
}

void LossScale::backward(const torch::Tensor& loss) const {
  (factor_.defined() ? loss * factor_ : loss).backward();
}

void LossScale::unscale(const torch::nn::Module& module) const {
  if (!factor_.defined()) return;
  const torch::NoGradGuard no_grad;
  const auto gradients = gradients_of(module);
  if (!gradients.empty()) at::_foreach_mul_(gradients, factor_.reciprocal());
}

torch::Tensor LossScale::can_shrink() const {
  return factor_.defined() ? factor_.gt(1) : torch::Tensor();
}

void LossScale::update(const torch::Tensor& skip) {
  if (!factor_.defined()) return;
  steps_.add_(1);
  const auto grows = steps_.ge(kStepsToGrow);
  const auto grown = at::where(grows, factor_ * 2, factor_);
  factor_.copy_(at::where(skip, (factor_ / 2).clamp_min(1), grown));
  steps_.masked_fill_(grows.logical_or(skip), 0);
}

TensorMap LossScale::state() const {
  if (!factor_.defined()) return {};
  return {{"factor", factor_}, {"taken", steps_}};
}

void LossScale::load(const TensorMap& state) {
  if (factor_.defined() && !state.empty()) copy_tensors(this->state(), state, "loss scale");
}

}  // namespace nsvq
