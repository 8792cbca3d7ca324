#include "nsvq/train/loss_scale.h"

namespace nsvq {

namespace {

constexpr double kFirstFactor = 65536;
constexpr int64_t kStepsToGrow = 2000;

}  // namespace

LossScale::LossScale(Precision precision)
    : scales_(precision == Precision::fp16), factor_(scales_ ? kFirstFactor : 1) {}

void LossScale::backward(const torch::Tensor& loss, const torch::nn::Module& module) const {
  if (!scales_) return loss.backward();
  (loss * factor_).backward();
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (!gradients.empty()) at::_foreach_mul_(gradients, 1 / factor_);
}

void LossScale::step_taken() {
  if (!scales_ || ++taken_ < kStepsToGrow) return;
  factor_ *= 2;
  taken_ = 0;
}

bool LossScale::shrink() {
  if (!scales_ || factor_ <= 1) return false;
  factor_ /= 2;
  taken_ = 0;
  return true;
}

std::map<std::string, torch::Tensor> LossScale::state() const {
  if (!scales_) return {};
  return {{"factor", at::scalar_tensor(factor_, at::kDouble)},
          {"taken", at::scalar_tensor(taken_, at::kLong)}};
}

void LossScale::load(const std::map<std::string, torch::Tensor>& state) {
  if (!scales_ || state.empty()) return;
  factor_ = state.at("factor").item<double>();
  taken_ = state.at("taken").item<int64_t>();
}

}  // namespace nsvq
