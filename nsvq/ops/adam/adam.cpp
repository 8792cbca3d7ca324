#include "nsvq/ops/adam/adam.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <set>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using Tensors = std::vector<torch::Tensor>;
using Flag = std::optional<torch::Tensor>;
using Scalar = std::optional<torch::Tensor>;
using Step = void(at::TensorList, at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                  at::TensorList, const Flag&, const Scalar&, const Scalar&, const Scalar&,
                  at::ArrayRef<double>, double, double, double, double, double, double);
using Average = void(at::TensorList, at::TensorList, const Flag&, double);

/// Whether two tensors have one order in memory; the stride of a dimension of size 1 means nothing.
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

Scalar checked_scalar(const torch::Tensor& scalar, const char* name, at::ScalarType type,
                      c10::Device device) {
  if (!scalar.defined()) return {};
  TORCH_CHECK(scalar.scalar_type() == type && scalar.numel() == 1 && scalar.device() == device,
              "adam_step: ", name, " must be one ", type, " on ", device, ", but it is ",
              scalar.scalar_type(), " ", scalar.sizes(), " on ", scalar.device());
  return scalar;
}

/// The gradients, copied to the parameters' order in memory where theirs differs.
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

/// The tensors i of a list for which keep[i] is true.
Tensors chosen(const Tensors& list, const std::vector<bool>& keep) {
  Tensors result;
  for (size_t i = 0; i < list.size(); ++i) {
    if (keep[i]) result.push_back(list[i]);
  }
  return result;
}

/// Marks the tensors as changed, so that autograd notices if it has saved them.
void mark_changed(const Tensors& tensors) {
  for (const auto& one : tensors) one.unsafeGetTensorImpl()->bump_version();
}

void adam(const Tensors& parameters, const Tensors& gradients, const Tensors& moments1,
          const Tensors& moments2, const Tensors& steps, double lr, const AdamOptions& options) {
  at::_fused_adam_(parameters, gradients, moments1, moments2, /*max_exp_avg_sqs=*/{}, steps, lr,
                   options.beta1, options.beta2, /*weight_decay=*/0, options.eps,
                   /*amsgrad=*/false, /*maximize=*/false);
}

void adamw(const Tensors& parameters, const Tensors& gradients, const Tensors& moments1,
           const Tensors& moments2, const Tensors& steps, double lr, const AdamOptions& options) {
  at::_fused_adamw_(parameters, gradients, moments1, moments2, /*max_exp_avg_sqs=*/{}, steps, lr,
                    options.beta1, options.beta2, options.weight_decay, options.eps,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void adam_step_cpu(at::TensorList parameters, at::TensorList gradients, at::TensorList moments1,
                   at::TensorList moments2, at::TensorList steps, at::TensorList averages,
                   const Flag& bad, const Scalar& lr_factor, const Scalar& gradient_factor,
                   const Scalar& average_decay_now, at::ArrayRef<double> lr_scales, double lr,
                   double beta1, double beta2, double eps, double weight_decay,
                   double average_decay) {
  adam_step_reference(
      {parameters.vec(), gradients.vec(), moments1.vec(), moments2.vec(), steps.vec(),
       averages.vec(), lr_scales.vec(), lr_factor.value_or(torch::Tensor()),
       gradient_factor.value_or(torch::Tensor()), average_decay_now.value_or(torch::Tensor())},
      {lr, beta1, beta2, eps, weight_decay, average_decay}, bad.value_or(torch::Tensor()));
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
  TORCH_CHECK(tensors.lr_scales.empty() || tensors.lr_scales.size() == parameters.size(),
              "adam_step: ", parameters.size(), " parameters, but ", tensors.lr_scales.size(),
              " lr_scales");
  if (parameters.empty()) return;
  const auto device = parameters[0].device();
  static const auto op = operator_named<Step>("nsvq::adam_step");
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.call(parameters, gradients, tensors.moments1, tensors.moments2, tensors.steps,
          tensors.averages, checked_flag(bad, device),
          checked_scalar(tensors.lr_factor, "lr_factor", at::kDouble, device),
          checked_scalar(tensors.gradient_factor, "gradient_factor", at::kFloat, device),
          checked_scalar(tensors.average_decay, "average_decay", at::kFloat, device),
          tensors.lr_scales, options.lr, options.beta1, options.beta2, options.eps,
          options.weight_decay, options.average_decay);
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
  const double factor = tensors.lr_factor.defined() ? tensors.lr_factor.item<double>() : 1;
  const auto gradients = tensors.gradient_factor.defined()
                             ? at::_foreach_mul(tensors.gradients, tensors.gradient_factor)
                             : tensors.gradients;
  auto scales = tensors.lr_scales;
  scales.resize(tensors.parameters.size(), 1);
  for (const double scale : std::set<double>(scales.begin(), scales.end())) {
    std::vector<bool> keep;
    for (const double one : scales) keep.push_back(one == scale);
    const auto update = options.weight_decay > 0 ? adamw : adam;
    update(chosen(tensors.parameters, keep), chosen(gradients, keep),
           chosen(tensors.moments1, keep), chosen(tensors.moments2, keep),
           chosen(tensors.steps, keep), options.lr * scale * factor, options);
  }
  if (tensors.averages.empty()) return;
  const double decay = tensors.average_decay.defined() ? tensors.average_decay.item<double>()
                                                       : options.average_decay;
  at::_foreach_lerp_(tensors.averages, tensors.parameters, 1 - decay);
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
      "moments2, Tensor(d!)[] steps, Tensor(e!)[] averages, Tensor? bad, Tensor? lr_factor, "
      "Tensor? gradient_factor, Tensor? average_decay_now, float[] lr_scales, float lr, float "
      "beta1, float beta2, float eps, float weight_decay, float average_decay) -> ()");
  m.def("average_step(Tensor[] parameters, Tensor(a!)[] averages, Tensor? bad, float decay) -> ()");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("adam_step", adam_step_cpu);
  m.impl("average_step", average_step_cpu);
}

}  // namespace nsvq
