#include "nsvq/train/steps/adam.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/ops/adam/adam.h"

namespace nsvq {

namespace {

/// L2 norm of all tensors together.
torch::Tensor common_norm(const std::vector<torch::Tensor>& tensors) {
  return at::stack(at::_foreach_norm(tensors)).norm();
}

/// Keeps the L2 norm of all gradients at most `most`, by the formula of
/// torch.nn.utils.clip_grad_norm_.
torch::Tensor clipping_factor(const std::vector<torch::Tensor>& gradients, double most) {
  return (most / (common_norm(gradients) + 1e-6)).clamp_max(1).to(at::kFloat);
}

bool has_part(const std::string& name, const std::string& part) {
  return name.find(part) != std::string::npos;
}

bool is_decayed(const OptimizerConfig& config, const std::string& name, int64_t dimensions) {
  if (config.decayed == "matrices" && dimensions < 2) return false;
  return std::ranges::none_of(config.undecayed,
                              [&](const std::string& part) { return has_part(name, part); });
}

/// Throws UserError for a part that no name has.
void check_undecayed(const OptimizerConfig& config, const Adam::Parameters& parameters) {
  for (const auto& part : config.undecayed) {
    if (std::ranges::any_of(parameters,
                            [&](const auto& one) { return has_part(one.name, part); })) {
      continue;
    }
    throw UserError("optimizer.undecayed: no parameter has {} in its name; one is {}", quote(part),
                    parameters.empty() ? "missing" : parameters.front().name);
  }
}

}  // namespace

Adam::Adam(const Parameters& parameters, const OptimizerConfig& config,
           const WeightAverage* average)
    : config_(config),
      lr_factor_(at::ones({}, at::kDouble)),
      average_decay_(average ? average->decay() : 0) {
  check_undecayed(config, parameters);
  for (const auto& [name, tensor, lr_scale, eps] : parameters) {
    const auto like = tensor.detach();
    slots_.push_back({name, tensor, at::zeros_like(like), at::zeros_like(like),
                      at::zeros({}, like.options().dtype(at::kFloat)),
                      average ? average->of(tensor) : torch::Tensor(), lr_scale,
                      eps > 0 ? eps : config.eps,
                      is_decayed(config, name, like.dim()) ? config.weight_decay : 0});
  }
  if (!slots_.empty()) lr_factor_ = lr_factor_.to(slots_[0].parameter.device());
}

void Adam::set_lr_factor(double factor) {
  if (factor == last_lr_factor_) return;
  lr_factor_.fill_(factor);
  last_lr_factor_ = factor;
}

void Adam::step(const torch::Tensor& skipped) {
  const torch::NoGradGuard no_grad;
  auto skip = skipped;
  if (held_.defined()) skip = skip.defined() ? skip.logical_or(held_) : held_;
  std::map<std::pair<double, double>, AdamTensors> moving;  // by eps and decay: a call has one
  std::vector<torch::Tensor> gradients, still, averages_of_still;
  for (const auto& slot : slots_) {
    if (!slot.parameter.requires_grad() || !slot.parameter.grad().defined()) {
      if (!slot.average.defined()) continue;
      still.push_back(slot.parameter);
      averages_of_still.push_back(slot.average);
      continue;
    }
    auto& tensors = moving[{slot.eps, slot.weight_decay}];
    tensors.parameters.push_back(slot.parameter);
    tensors.gradients.push_back(slot.parameter.grad());
    tensors.moments1.push_back(slot.moment1);
    tensors.moments2.push_back(slot.moment2);
    tensors.steps.push_back(slot.steps);
    if (slot.average.defined()) tensors.averages.push_back(slot.average);
    tensors.lr_scales.push_back(slot.lr_scale);
    gradients.push_back(slot.parameter.grad());
  }
  torch::Tensor gradient_factor;
  if (config_.clip_norm > 0 && !gradients.empty()) {
    gradient_factor = clipping_factor(gradients, config_.clip_norm);
  }
  for (auto& [constants, tensors] : moving) {
    const auto& [eps, weight_decay] = constants;
    tensors.lr_factor = lr_factor_;
    tensors.gradient_factor = gradient_factor;
    tensors.average_decay = average_decay_now_;
    adam_step(tensors,
              {.lr = config_.lr,
               .beta1 = config_.beta1,
               .beta2 = config_.beta2,
               .eps = eps,
               .weight_decay = weight_decay,
               .average_decay = average_decay_},
              skip);
  }
  average_step(still, averages_of_still, average_decay_, skip);
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

TensorMap Adam::state() const {
  TensorMap state;
  for (const auto& slot : slots_) {
    state[slot.name + ".moment1"] = slot.moment1;
    state[slot.name + ".moment2"] = slot.moment2;
    state[slot.name + ".steps"] = slot.steps;
  }
  return state;
}

void Adam::load(const TensorMap& state, const std::string& from) {
  copy_tensors(this->state(), state, from);
}

Adam::Parameters named_parameters(const torch::nn::Module& module, double lr_scale) {
  Adam::Parameters parameters;
  for (const auto& item : module.named_parameters()) {
    parameters.push_back({item.key(), item.value(), lr_scale});
  }
  return parameters;
}

Adam::Parameters named_parameters(const torch::nn::Module& module,
                                  const std::map<std::string, PartRate>& rates) {
  auto parameters = named_parameters(module);
  for (auto& [name, tensor, lr_scale, eps] : parameters) {
    const auto& rate = rates.at(name.substr(0, name.find('.')));
    lr_scale = rate.lr_scale;
    eps = rate.eps;
  }
  return parameters;
}

std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : module.parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

torch::Tensor gradient_norm(const torch::nn::Module& module, c10::Device device) {
  const torch::NoGradGuard no_grad;
  const auto gradients = gradients_of(module);
  if (gradients.empty()) return at::zeros({}, at::device(device).dtype(at::kFloat));
  return common_norm(gradients);
}

}  // namespace nsvq
