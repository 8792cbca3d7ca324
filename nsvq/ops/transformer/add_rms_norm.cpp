#include "nsvq/ops/transformer/add_rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/transformer/fits.h"
#include "nsvq/ops/transformer/kept_bits.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

MaybeTensor given_or_none(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

/// Sum (of no numbers without values), output and the factors [...] that normalise rows.
ThreeTensors forward_below(const Tensor& x, const Branch& branch, const Tensor& weight,
                           double eps) {
  using Forward = ThreeTensors(const Tensor&, const MaybeTensor&, const MaybeTensor&, double,
                               const Tensor&, double);
  static const auto op = operator_named<Forward>("nsvq::add_rms_norm");
  return call_below_autograd(op, x, given_or_none(branch.values), given_or_none(branch.kept),
                             branch.dropped, weight, eps);
}

/// By x, the values (of no numbers without them) and the weight.
ThreeTensors backward_below(const Tensor& gradient, const Tensor& of_sum, const Tensor& sum,
                            const Tensor& rstd, const Tensor& weight, const Tensor& kept,
                            double dropped, bool values) {
  using Backward = ThreeTensors(const Tensor&, const MaybeTensor&, const Tensor&, const Tensor&,
                                const Tensor&, const MaybeTensor&, double, bool);
  static const auto op = operator_named<Backward>("nsvq::add_rms_norm_backward");
  return call_below_autograd(op, gradient, given_or_none(of_sum), sum, rstd, weight,
                             given_or_none(kept), dropped, values);
}

class AddRmsNorm : public torch::autograd::Function<AddRmsNorm> {
 public:
  /// Output, and with values the sum.
  static variable_list forward(AutogradContext* context, const Tensor& x, const MaybeTensor& values,
                               const MaybeTensor& kept, double dropped, const Tensor& weight,
                               double eps) {
    const Branch branch{values.value_or(Tensor()), kept.value_or(Tensor()), dropped};
    const auto [sum, output, rstd] = forward_below(x, branch, weight, eps);
    context->save_for_backward({values ? sum : x, rstd, weight, branch.kept});
    context->saved_data["dropped"] = dropped;
    context->saved_data["values"] = values.has_value();
    context->set_materialize_grads(false);  // zeros would be a pass over memory
    if (!values) return {output};
    return {output, sum};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "add_rms_norm: has no second derivative");
    const auto saved = context->get_saved_variables();
    const bool values = context->saved_data["values"].toBool();
    const auto of_sum = values ? gradients[1] : Tensor();
    const auto of_output =
        gradients[0].defined()
            ? gradients[0].contiguous()
            : at::zeros(saved[0].sizes(), saved[0].options().dtype(at::kBFloat16));
    const auto [x, branch, weight] = backward_below(
        of_output, of_sum.defined() ? of_sum.contiguous() : of_sum, saved[0], saved[1], saved[2],
        saved[3], context->saved_data["dropped"].toDouble(), values);
    return {x, values ? branch : Tensor(), {}, {}, weight, {}};
  }
};

// The operators on a CPU: plain tensor operations.

Tensor factors_of(const Tensor& kept, double dropped) {
  return bits_as_numbers(kept, at::kFloat) / (1 - dropped);
}

ThreeTensors add_rms_norm_cpu(const Tensor& x, const MaybeTensor& values, const MaybeTensor& kept,
                              double dropped, const Tensor& weight, double eps) {
  const Branch branch{values.value_or(Tensor()), kept.value_or(Tensor()), dropped};
  check_add_rms_norm(x, branch, weight);
  const auto [sum, output] = add_rms_norm_reference(x, branch, weight, eps);
  const auto rstd = sum.square().mean(-1).add(eps).rsqrt();
  return {values ? sum : at::empty({0}, x.options()), output.to(at::kBFloat16), rstd};
}

ThreeTensors add_rms_norm_backward_cpu(const Tensor& gradient, const MaybeTensor& of_sum,
                                       const Tensor& sum, const Tensor& rstd, const Tensor& weight,
                                       const MaybeTensor& kept, double dropped, bool values) {
  const auto own = gradient.to(at::kFloat);
  const auto scale = rstd.unsqueeze(-1);
  const auto normalised = sum * scale, wide = own * weight;
  auto x = scale * (wide - normalised * (wide * normalised).mean(-1, /*keepdim=*/true));
  if (of_sum) x += *of_sum;
  const auto of_weight = (own * normalised).flatten(0, -2).sum(0);
  if (!values) return {x, at::empty({0}, gradient.options()), of_weight};
  const auto branch = kept ? x * factors_of(*kept, dropped) : x;
  return {x, branch.to(at::kBFloat16), of_weight};
}

}  // namespace

std::string add_rms_norm_unavailable_reason(const Tensor& x, const Tensor& values,
                                            const Tensor& weight) {
  constexpr int64_t kMostChannels = 2048;
  if (!x.is_cuda()) return "not on a GPU";
  if (x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat) return "not in fp32";
  if (!in_eights(x) || !in_eights(weight)) return "rows of no multiple of 8 numbers";
  if (x.size(-1) > kMostChannels) return "rows of more than 2,048 numbers";
  if (!values.defined()) return "";
  if (values.scalar_type() != at::kBFloat16) return "values not in bf16";
  return in_eights(values) ? "" : "values that are not contiguous";
}

void check_add_rms_norm(const Tensor& x, const Branch& branch, const Tensor& weight) {
  TORCH_CHECK(x.dim() > 1 && x.scalar_type() == at::kFloat && x.is_contiguous() &&
                  weight.dim() == 1 && weight.size(0) == x.size(-1) &&
                  weight.scalar_type() == at::kFloat,
              "add_rms_norm: needs x [..., width] and weight [width] of fp32, got ", x.sizes(), " ",
              x.scalar_type(), " and ", weight.sizes(), " ", weight.scalar_type());
  if (!branch.values.defined()) return;
  TORCH_CHECK(branch.values.sizes() == x.sizes() && branch.values.scalar_type() == at::kBFloat16 &&
                  branch.values.is_contiguous(),
              "add_rms_norm: values must be bf16 of x's shape, but they are ",
              branch.values.scalar_type(), " ", branch.values.sizes());
  if (!branch.kept.defined()) return;
  TORCH_CHECK(branch.kept.scalar_type() == at::kByte && branch.kept.is_contiguous() &&
                  branch.kept.numel() * 8 == x.numel(),
              "add_rms_norm: kept must be uint8, a bit for each value, but it is ",
              branch.kept.scalar_type(), " ", branch.kept.sizes());
}

SumAndRmsNorm add_rms_norm(const Tensor& x, const Branch& branch, const Tensor& weight,
                           double eps) {
  const auto results = AddRmsNorm::apply(x, given_or_none(branch.values),
                                         given_or_none(branch.kept), branch.dropped, weight, eps);
  return {branch.values.defined() ? results[1] : x, results[0]};
}

SumAndRmsNorm add_rms_norm_reference(const Tensor& x, const Branch& branch, const Tensor& weight,
                                     double eps) {
  auto sum = x;
  if (branch.values.defined()) {
    const auto values = branch.values.to(x.scalar_type());
    sum = x + (branch.kept.defined()
                   ? values * bits_as_numbers(branch.kept, x.scalar_type()) / (1 - branch.dropped)
                   : values);
  }
  return {sum, at::rms_norm(sum, {x.size(-1)}, weight, eps)};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "add_rms_norm(Tensor x, Tensor? values, Tensor? kept, float dropped, Tensor weight, float "
      "eps) -> (Tensor sum, Tensor output, Tensor rstd)");
  m.def(
      "add_rms_norm_backward(Tensor gradient, Tensor? sum_gradient, Tensor sum, Tensor rstd, "
      "Tensor "
      "weight, Tensor? kept, float dropped, bool values) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) {
  m.impl("add_rms_norm", add_rms_norm_cpu);
  m.impl("add_rms_norm_backward", add_rms_norm_backward_cpu);
}

}  // namespace nsvq
