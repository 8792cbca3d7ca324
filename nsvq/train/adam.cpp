#include "nsvq/train/adam.h"

#include "nsvq/train/state.h"

namespace nsvq {

Adam::Adam(Named parameters, const OptimizerConfig& config) : config_(config) {
  for (auto& [name, parameter] : parameters) {
    const auto like = parameter.detach();
    slots_.push_back({name, parameter, at::zeros_like(like), at::zeros_like(like),
                      at::zeros({}, like.options().dtype(at::kFloat))});
  }
}

void Adam::step() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> parameters, gradients, moments1, moments2, steps;
  for (const auto& slot : slots_) {
    if (!slot.parameter.requires_grad() || !slot.parameter.grad().defined()) continue;
    parameters.push_back(slot.parameter);
    // The fused kernel walks all tensors in memory order, so the orders must agree.
    const auto& gradient = slot.parameter.grad();
    gradients.push_back(gradient.strides() == slot.parameter.strides()
                            ? gradient
                            : at::empty_like(slot.parameter).copy_(gradient));
    moments1.push_back(slot.moment1);
    moments2.push_back(slot.moment2);
    steps.push_back(slot.steps);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adam_(parameters, gradients, moments1, moments2, /*max_exp_avg_sqs=*/{}, steps,
                   config_.lr, config_.beta1, config_.beta2, /*weight_decay=*/0, config_.eps,
                   /*amsgrad=*/false,
                   /*maximize=*/false);
}

void Adam::clear_gradients() {
  for (auto& slot : slots_) slot.parameter.mutable_grad() = torch::Tensor();
}

void Adam::reset_rows(const torch::Tensor& parameter, const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  for (auto& slot : slots_) {
    if (!slot.parameter.is_same(parameter)) continue;
    slot.moment1.masked_fill_(rows.unsqueeze(1), 0);
    slot.moment2.masked_fill_(rows.unsqueeze(1), 0);
  }
}

std::map<std::string, torch::Tensor> Adam::state() const {
  std::map<std::string, torch::Tensor> state;
  for (const auto& slot : slots_) {
    state[slot.name + ".moment1"] = slot.moment1;
    state[slot.name + ".moment2"] = slot.moment2;
    state[slot.name + ".steps"] = slot.steps;
  }
  return state;
}

void Adam::load(const std::map<std::string, torch::Tensor>& state, const std::string& from) {
  copy_tensors(this->state(), state, from);
}

torch::Tensor gradient_norm(const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  if (gradients.empty()) return at::zeros({});
  return at::stack(at::_foreach_norm(gradients)).norm();
}

}  // namespace nsvq
