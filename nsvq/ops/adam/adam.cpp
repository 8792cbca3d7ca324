#include "nsvq/ops/adam/adam.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using Tensors = std::vector<torch::Tensor>;
using Flag = std::optional<torch::Tensor>;
using Step = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                  at::TensorList, const Flag&, double, double, double, double, double);
using Average = void(at::TensorList, at::TensorList, const Flag&, double);

/// Whether numbers follow one another alike in memory; the stride of a single one means nothing.
bool same_order(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) > 1 && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

void check_like_parameters(const Tensors& parameters, const char* name, const Tensors& others) {
  TORCH_CHECK(others.size() == parameters.size(), "adam_step: ", parameters.size(),
              " parameters, but ", others.size(), " ", name);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto &one = parameters[i], &other = others[i];
    TORCH_CHECK(other.scalar_type() == at::kFloat && other.device() == parameters[0].device() &&
                    other.is_non_overlapping_and_dense() && same_order(one, other),
                "adam_step: ", name, " ", i, " must be fp32, dense, on ", parameters[0].device(),
                " and like its parameter ", one.sizes(), " with strides ", one.strides(),
                ", but it is ", other.scalar_type(), " ", other.sizes(), " with strides ",
                other.strides(), " on ", other.device());
  }
}

void check_steps(const Tensors& parameters, const Tensors& steps) {
  TORCH_CHECK(steps.size() == parameters.size(), "adam_step: ", parameters.size(),
              " parameters, but ", steps.size(), " steps");
  for (const auto& one : steps) {
    TORCH_CHECK(one.scalar_type() == at::kFloat && one.numel() == 1 &&
                    one.device() == parameters[0].device(),
                "adam_step: steps must be fp32 scalars on ", parameters[0].device(),
                ", but one is ", one.scalar_type(), " ", one.sizes(), " on ", one.device());
  }
}

Flag checked_flag(const torch::Tensor& bad, c10::Device device) {
  if (!bad.defined()) return {};
  TORCH_CHECK(bad.scalar_type() == at::kBool && bad.numel() == 1 && bad.device() == device,
              "adam_step: bad must be one boolean on ", device, ", but it is ", bad.scalar_type(),
              " ", bad.sizes(), " on ", bad.device());
  return bad;
}

/// Gradients in the parameters' order in memory.
Tensors ordered(const Tensors& gradients, const Tensors& parameters) {
  TORCH_CHECK(gradients.size() == parameters.size(), "adam_step: ", parameters.size(),
              " parameters, but ", gradients.size(), " gradients");
  Tensors result;
  for (size_t i = 0; i < gradients.size(); ++i) {
    result.push_back(same_order(gradients[i], parameters[i])
                         ? gradients[i]
                         : at::empty_like(parameters[i]).copy_(gradients[i]));
  }
  return result;
}

/// Autograd then sees that values it may have saved are others now.
void mark_changed(const Tensors& tensors) {
  for (const auto& one : tensors) one.unsafeGetTensorImpl()->bump_version();
}

void adam_step_cpu(at::TensorList parameters, at::TensorList gradients, at::TensorList moments1,
                   at::TensorList moments2, at::TensorList steps, at::TensorList averages,
                   const Flag& bad, double lr, double beta1, double beta2, double eps,
                   double decay) {
  adam_step_reference({parameters.vec(), gradients.vec(), moments1.vec(), moments2.vec(),
                       steps.vec(), averages.vec()},
                      {lr, beta1, beta2, eps, decay}, bad.value_or(torch::Tensor()));
}

void average_step_cpu(at::TensorList parameters, at::TensorList averages, const Flag& bad,
                      double decay) {
  average_step_reference(parameters.vec(), averages.vec(), decay, bad.value_or(torch::Tensor()));
}

}  // namespace

void adam_step(const AdamTensors& tensors, const AdamOptions& options, const torch::Tensor& bad) {
  const auto& parameters = tensors.parameters;
  const torch::NoGradGuard no_grad;
  const auto gradients = ordered(tensors.gradients, parameters);
  check_like_parameters(parameters, "parameters", parameters);
  check_like_parameters(parameters, "gradients", gradients);
  check_like_parameters(parameters, "moments1", tensors.moments1);
  check_like_parameters(parameters, "moments2", tensors.moments2);
  check_steps(parameters, tensors.steps);
  if (!tensors.averages.empty()) check_like_parameters(parameters, "averages", tensors.averages);
  if (parameters.empty()) return;
  static const auto op = operator_named<Step>("nsvq::adam_step");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.call(parameters, gradients, tensors.moments1, tensors.moments2, tensors.steps,
          tensors.averages, checked_flag(bad, parameters[0].device()), options.lr, options.beta1,
          options.beta2, options.eps, options.average_decay);
  mark_changed(parameters);
  mark_changed(tensors.averages);
}

void average_step(const Tensors& parameters, const Tensors& averages, double decay,
                  const torch::Tensor& bad) {
  check_like_parameters(parameters, "parameters", parameters);
  check_like_parameters(parameters, "averages", averages);
  if (parameters.empty()) return;
  static const auto op = operator_named<Average>("nsvq::average_step");
  const torch::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.call(parameters, averages, checked_flag(bad, parameters[0].device()), decay);
  mark_changed(averages);
}

void adam_step_reference(const AdamTensors& tensors, const AdamOptions& options,
                         const torch::Tensor& bad) {
  const torch::NoGradGuard no_grad;
  if (bad.defined() && bad.item<bool>()) return;
  at::_foreach_add_(tensors.steps, 1);
  at::_fused_adam_(tensors.parameters, tensors.gradients, tensors.moments1, tensors.moments2,
                   /*max_exp_avg_sqs=*/{}, tensors.steps, options.lr, options.beta1, options.beta2,
                   /*weight_decay=*/0, options.eps, /*amsgrad=*/false, /*maximize=*/false);
  if (!tensors.averages.empty()) {
    at::_foreach_lerp_(tensors.averages, tensors.parameters, 1 - options.average_decay);
  }
}

void average_step_reference(const Tensors& parameters, const Tensors& averages, double decay,
                            const torch::Tensor& bad) {
  const torch::NoGradGuard no_grad;
  if (bad.defined() && bad.item<bool>()) return;
  at::_foreach_lerp_(averages, parameters, 1 - decay);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "adam_step(Tensor(a!)[] parameters, Tensor[] gradients, Tensor(b!)[] moments1, Tensor(c!)[] "
      "moments2, Tensor(d!)[] steps, Tensor(e!)[] averages, Tensor? bad, float lr, float beta1, "
      "float beta2, float eps, float average_decay) -> ()");
  m.def("average_step(Tensor[] parameters, Tensor(a!)[] averages, Tensor? bad, float decay) -> ()");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("adam_step", adam_step_cpu);
  m.impl("average_step", average_step_cpu);
}

}  // namespace nsvq
