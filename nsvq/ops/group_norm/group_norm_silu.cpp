#include "nsvq/ops/group_norm/group_norm_silu.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Triple = std::tuple<Tensor, Tensor, Tensor>;

const auto& group_norm_silu_operator() {
  using Forward = Triple(const Tensor&, const Tensor&, const Tensor&, int64_t, double, bool);
  static const auto op = operator_named<Forward>("nsvq::group_norm_silu");
  return op;
}

Triple gradients_of(const Tensor& gradient, const variable_list& saved, bool silu) {
  using Backward = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, bool);
  static const auto op = operator_named<Backward>("nsvq::group_norm_silu_backward");
  return call_below_autograd(op, gradient, saved[0], saved[1], saved[2], saved[3], saved[4], silu);
}

class GroupNormSilu : public torch::autograd::Function<GroupNormSilu> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, int64_t groups, double eps, bool silu) {
    const auto [output, mean, rstd] =
        call_below_autograd(group_norm_silu_operator(), input, weight, bias, groups, eps, silu);
    context->save_for_backward({input, weight, bias, mean, rstd});
    context->saved_data["silu"] = silu;
    context->mark_non_differentiable({mean, rstd});
    context->set_materialize_grads(false);  // mean and rstd have none: no zeros for them
    return {output, mean, rstd};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "group_norm_silu: has no second derivative");
    if (!gradients[0].defined()) return {{}, {}, {}, {}, {}, {}};
    const auto [input, weight, bias] = gradients_of(gradients[0], context->get_saved_variables(),
                                                    context->saved_data["silu"].toBool());
    return {input, weight, bias, {}, {}, {}};
  }
};

Triple group_norm_silu_autograd(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                int64_t groups, double eps, bool silu) {
  if (!needs_gradient({input, weight, bias})) {
    return call_below_autograd(group_norm_silu_operator(), input, weight, bias, groups, eps, silu);
  }
  const auto results = GroupNormSilu::apply(input, weight, bias, groups, eps, silu);
  return {results[0], results[1], results[2]};
}

void check_parameter(const char* name, const Tensor& parameter, const Tensor& input) {
  TORCH_CHECK(parameter.dim() == 1 && parameter.size(0) == input.size(1), "group_norm_silu: ", name,
              " must be [", input.size(1), "], but it is ", parameter.sizes());
  TORCH_CHECK(
      parameter.scalar_type() == input.scalar_type() || parameter.scalar_type() == at::kFloat,
      "group_norm_silu: ", name, " must be fp32 or of the input's type, but it is ",
      parameter.scalar_type());
  TORCH_CHECK(parameter.device() == input.device(), "group_norm_silu: ", name, " is on ",
              parameter.device(), ", but input is on ", input.device());
}

// Shapes and types of the results, for tracing.

Triple forward_meta(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t groups,
                    double /*eps*/, bool /*silu*/) {
  check_group_norm_silu(input, weight, bias, groups);
  auto mean = at::empty({input.size(0), groups}, input.options().dtype(at::kFloat));
  return {at::empty_like(input, at::MemoryFormat::ChannelsLast), mean, at::empty_like(mean)};
}

Triple backward_meta(const Tensor& /*gradient*/, const Tensor& input, const Tensor& weight,
                     const Tensor& bias, const Tensor& /*mean*/, const Tensor& /*rstd*/,
                     bool /*silu*/) {
  return {at::empty_like(input, at::MemoryFormat::ChannelsLast), at::empty_like(weight),
          at::empty_like(bias)};
}

}  // namespace

void check_group_norm_silu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                           int64_t groups) {
  TORCH_CHECK(input.dim() == 4, "group_norm_silu: input must be [N, C, H, W], but it is ",
              input.sizes());
  const auto type = input.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf,
              "group_norm_silu: input must be fp32, bf16 or fp16, but it is ", type);
  TORCH_CHECK(groups > 0 && input.size(1) % groups == 0, "group_norm_silu: input has ",
              input.size(1), " channels, which is not a multiple of groups = ", groups);
  check_parameter("weight", weight, input);
  check_parameter("bias", bias, input);
}

Tensor group_norm_silu(const Tensor& input, const Tensor& weight, const Tensor& bias,
                       int64_t groups, double eps, bool silu) {
  return std::get<0>(group_norm_silu_operator().call(input, weight, bias, groups, eps, silu));
}

Tensor group_norm_silu_reference(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                 int64_t groups, double eps, bool silu) {
  const auto normalised = at::group_norm(input, groups, weight, bias, eps);
  return silu ? at::silu(normalised) : normalised;
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "group_norm_silu(Tensor input, Tensor weight, Tensor bias, int groups, float eps, bool silu) "
      "-> (Tensor output, Tensor mean, Tensor rstd)");
  m.def(
      "group_norm_silu_backward(Tensor gradient, Tensor input, Tensor weight, Tensor bias, Tensor "
      "mean, Tensor rstd, bool silu) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("group_norm_silu", group_norm_silu_autograd); }

TORCH_LIBRARY_IMPL(nsvq, Meta, m) {
  m.impl("group_norm_silu", forward_meta);
  m.impl("group_norm_silu_backward", backward_meta);
}

}  // namespace nsvq
