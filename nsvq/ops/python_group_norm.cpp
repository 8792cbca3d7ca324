// nsvq::group_norm_silu with gradients, as Python calls it.

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <tuple>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;
using Normalised = std::tuple<Tensor, Tensor, Tensor>;

Normalised normalise(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t groups,
                     double eps, bool silu) {
  using Forward = Normalised(const Tensor&, const Tensor&, const Tensor&, int64_t, double, bool);
  static const auto forward = operator_named<Forward>("nsvq::group_norm_silu");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return forward.call(input, weight, bias, groups, eps, silu);
}

Normalised gradients_of(const Tensor& gradient, const variable_list& saved, bool silu) {
  using Backward = Normalised(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, const Tensor&, bool);
  static const auto backward = operator_named<Backward>("nsvq::group_norm_silu_backward");
  const at::AutoDispatchBelowADInplaceOrView guard;
  return backward.call(gradient, saved[0], saved[1], saved[2], saved[3], saved[4], silu);
}

class NormaliseWithGradients : public torch::autograd::Function<NormaliseWithGradients> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input, const Tensor& weight,
                               const Tensor& bias, int64_t groups, double eps, bool silu) {
    const auto [output, mean, rstd] = normalise(input, weight, bias, groups, eps, silu);
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

Normalised group_norm_silu_autograd(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                    int64_t groups, double eps, bool silu) {
  const bool wanted = input.requires_grad() || weight.requires_grad() || bias.requires_grad();
  if (!at::GradMode::is_enabled() || !wanted) {
    return normalise(input, weight, bias, groups, eps, silu);
  }
  const auto results = NormaliseWithGradients::apply(input, weight, bias, groups, eps, silu);
  return {results[0], results[1], results[2]};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("group_norm_silu", group_norm_silu_autograd); }

}  // namespace nsvq
