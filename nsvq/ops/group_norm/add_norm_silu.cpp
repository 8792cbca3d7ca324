#include "nsvq/ops/group_norm/add_norm_silu.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Quadruple = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Triple normalise(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                 double eps, bool silu) {
  using Forward = Triple(const Tensor&, const Tensor&, const Tensor&, int64_t, double, bool);
  static const auto op = operator_named<Forward>("nsvq::group_norm_silu");
  return call_below_autograd(op, x, weight, bias, groups, eps, silu);
}

const auto& add_norm_silu_operator() {
  using Forward =
      Quadruple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t, double, bool);
  static const auto op = operator_named<Forward>("nsvq::add_norm_silu");
  return op;
}

Quadruple add_and_normalise(const Tensor& a, const std::optional<Tensor>& b, const Tensor& weight,
                            const Tensor& bias, int64_t groups, double eps, bool silu) {
  if (!b) return std::tuple_cat(std::tuple(a), normalise(a, weight, bias, groups, eps, silu));
  return call_below_autograd(add_norm_silu_operator(), a, *b, weight, bias, groups, eps, silu);
}

Triple gradients_of(const Tensor& sum_gradient, const Tensor& gradient, const variable_list& saved,
                    bool silu) {
  using Backward = Triple(const std::optional<Tensor>&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, const Tensor&, const Tensor&, bool);
  static const auto op = operator_named<Backward>("nsvq::add_norm_silu_backward");
  const auto carried = sum_gradient.defined() ? std::optional(sum_gradient) : std::nullopt;
  return call_below_autograd(op, carried, gradient, saved[0], saved[1], saved[2], saved[3],
                             saved[4], silu);
}

class AddNormSilu : public torch::autograd::Function<AddNormSilu> {
 public:
  /// Without `b` the sum is the input, which autograd turns into a view with a gradient of its own.
  static variable_list forward(AutogradContext* context, const Tensor& a,
                               const std::optional<Tensor>& b, const Tensor& weight,
                               const Tensor& bias, int64_t groups, double eps, bool silu) {
    const auto [sum, output, mean, rstd] = add_and_normalise(a, b, weight, bias, groups, eps, silu);
    context->save_for_backward({sum, weight, bias, mean, rstd});
    context->saved_data["silu"] = silu;
    context->saved_data["adds"] = b.has_value();
    context->mark_non_differentiable({mean, rstd});
    context->set_materialize_grads(false);  // zeros would be a pass over memory
    return {sum, output, mean, rstd};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto& of_sum = gradients[0];
    Tensor input = of_sum, weight, bias;
    if (gradients[1].defined()) {
      TORCH_CHECK(!at::GradMode::is_enabled(), "add_norm_silu: has no second derivative");
      std::tie(input, weight, bias) =
          gradients_of(of_sum, gradients[1], context->get_saved_variables(),
                       context->saved_data["silu"].toBool());
    }
    const auto other = context->saved_data["adds"].toBool() ? input : Tensor();
    return {input, other, weight, bias, {}, {}, {}};
  }
};

Quadruple add_norm_silu_autograd(const Tensor& a, const Tensor& b, const Tensor& weight,
                                 const Tensor& bias, int64_t groups, double eps, bool silu) {
  const auto results = AddNormSilu::apply(a, std::optional(b), weight, bias, groups, eps, silu);
  return {results[0], results[1], results[2], results[3]};
}

// The operator on a CPU: a sum and nsvq::group_norm_silu, one after the other.

Quadruple add_norm_silu_cpu(const Tensor& a, const Tensor& b, const Tensor& weight,
                            const Tensor& bias, int64_t groups, double eps, bool silu) {
  check_addends(a, b);
  const auto sum = a + b;
  return std::tuple_cat(std::tuple(sum), normalise(sum, weight, bias, groups, eps, silu));
}

Triple add_norm_silu_backward_cpu(const std::optional<Tensor>& sum_gradient, const Tensor& gradient,
                                  const Tensor& sum, const Tensor& weight, const Tensor& bias,
                                  const Tensor& mean, const Tensor& rstd, bool silu) {
  using Backward = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, bool);
  static const auto op = operator_named<Backward>("nsvq::group_norm_silu_backward");
  auto gradients = call_below_autograd(op, gradient, sum, weight, bias, mean, rstd, silu);
  if (sum_gradient) std::get<0>(gradients).add_(*sum_gradient);
  return gradients;
}

}  // namespace

void check_addends(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type(), "add_norm_silu: a is ",
              a.sizes(), " in ", a.scalar_type(), ", but b is ", b.sizes(), " in ",
              b.scalar_type());
  TORCH_CHECK(a.device() == b.device(), "add_norm_silu: a is on ", a.device(), ", but b is on ",
              b.device());
}

SumAndNorm add_norm_silu(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                         int64_t groups, double eps, bool silu) {
  if (b.defined()) {
    const auto results = add_norm_silu_operator().call(a, b, weight, bias, groups, eps, silu);
    return {std::get<0>(results), std::get<1>(results)};
  }
  // No operator returns its input: the autograd function alone can.
  const auto results =
      AddNormSilu::apply(a, std::optional<Tensor>(), weight, bias, groups, eps, silu);
  return {results[0], results[1]};
}

SumAndNorm add_norm_silu_reference(const Tensor& a, const Tensor& b, const Tensor& weight,
                                   const Tensor& bias, int64_t groups, double eps, bool silu) {
  const auto sum = b.defined() ? a + b : a;
  return {sum, group_norm_silu_reference(sum, weight, bias, groups, eps, silu)};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "add_norm_silu(Tensor a, Tensor b, Tensor weight, Tensor bias, int groups, float eps, bool "
      "silu) -> (Tensor sum, Tensor output, Tensor mean, Tensor rstd)");
  m.def(
      "add_norm_silu_backward(Tensor? sum_gradient, Tensor gradient, Tensor sum, Tensor weight, "
      "Tensor bias, Tensor mean, Tensor rstd, bool silu) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("add_norm_silu", add_norm_silu_autograd); }

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("add_norm_silu", add_norm_silu_cpu);
  m.impl("add_norm_silu_backward", add_norm_silu_backward_cpu);
}

}  // namespace nsvq
