#include "nsvq/nn/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "nsvq/core/precision.h"

namespace nsvq {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The operands of the products, in the type of autocast, if it is on.
struct Operands {
  Tensor x, weight, bias;

  /// Logits [rows, K] of the rows from `begin` on.
  Tensor logits(int64_t begin, int64_t rows) const {
    const auto given = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
    return at::linear(x.narrow(0, begin, rows), weight, given);
  }
  at::ScalarType wide() const { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
};

int64_t rows_at_once(const Tensor& weight, int64_t logits_at_once) {
  return std::max<int64_t>(logits_at_once / weight.size(0), 1);
}

/// work(begin, rows) for each chunk of `count` rows.
template <typename Work>
void by_chunks(int64_t count, int64_t most, Work work) {
  for (int64_t begin = 0; begin < count; begin += most) work(begin, std::min(most, count - begin));
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const Tensor& targets,
                        int64_t logits_at_once) {
    const auto bias = given_bias.value_or(Tensor());
    const auto precision = autocast_precision(x.device());
    const AutocastGuard off(Precision::fp32, x.device());
    const auto cast = [&](const Tensor& values) {
      if (precision == Precision::fp32 || !values.defined()) return values;
      return values.to(precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
    };
    const Operands operands{cast(x), cast(weight), cast(bias)};
    auto losses = at::empty({x.size(0)}, x.options().dtype(operands.wide()));
    by_chunks(x.size(0), rows_at_once(weight, logits_at_once), [&](int64_t begin, int64_t rows) {
      const auto own = targets.narrow(0, begin, rows).unsqueeze(1);
      const auto logs = at::log_softmax(operands.logits(begin, rows), 1, operands.wide());
      losses.narrow(0, begin, rows).copy_(logs.gather(1, own).squeeze(1).neg());
    });
    context->save_for_backward({operands.x, operands.weight, operands.bias, targets});
    context->saved_data["logits_at_once"] = logits_at_once;
    std::vector<int64_t> types;
    for (const auto* one : {&x, &weight, &bias}) {
      types.push_back(one->defined() ? static_cast<int64_t>(one->scalar_type()) : 0);
    }
    context->saved_data["types"] = types;
    return losses;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "linear_cross_entropy: no double backward");
    const auto saved = context->get_saved_variables();
    const Operands operands{saved[0], saved[1], saved[2]};
    const auto& targets = saved[3];
    const auto wide = operands.x.options().dtype(operands.wide());
    auto x_gradient = at::empty_like(operands.x);
    auto weight_gradient = at::zeros(operands.weight.sizes(), wide);
    auto bias_gradient = at::zeros({operands.weight.size(0)}, wide);
    const int64_t most =
        rows_at_once(operands.weight, context->saved_data["logits_at_once"].toInt());
    by_chunks(operands.x.size(0), most, [&](int64_t begin, int64_t rows) {
      const auto own = targets.narrow(0, begin, rows).unsqueeze(1);
      const auto gradient = gradients[0].narrow(0, begin, rows);
      // The gradient of a row's loss by its logits is its softmax, less 1 at the target.
      auto shares = at::softmax(operands.logits(begin, rows), 1, operands.wide());
      shares.scatter_(1, own, shares.gather(1, own) - 1);
      if (operands.bias.defined()) bias_gradient += shares.t().mv(gradient);
      auto scaled = at::empty(shares.sizes(), operands.x.options());
      at::mul_out(scaled, shares, gradient.unsqueeze(1));
      x_gradient.narrow(0, begin, rows).copy_(scaled.matmul(operands.weight));
      weight_gradient += scaled.t().matmul(operands.x.narrow(0, begin, rows));
    });
    const auto types = context->saved_data["types"].toIntVector();
    const auto in_type = [&](const Tensor& values, size_t i) {
      return values.to(static_cast<at::ScalarType>(types[i]));
    };
    return {in_type(x_gradient, 0),
            in_type(weight_gradient, 1),
            operands.bias.defined() ? in_type(bias_gradient, 2) : Tensor(),
            {},
            {}};
  }
};

}  // namespace

torch::Tensor linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& bias, const torch::Tensor& targets,
                                   int64_t logits_at_once) {
  TORCH_CHECK(
      x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) && targets.dim() == 1 &&
          targets.size(0) == x.size(0) && targets.scalar_type() == at::kLong,
      "linear_cross_entropy: needs x [N, d], weight [K, d] and targets [N] of int64, got ",
      x.sizes(), ", ", weight.sizes(), " and ", targets.sizes(), " ", targets.scalar_type());
  const auto given = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
  return LinearCrossEntropy::apply(x, weight, given, targets, logits_at_once);
}

}  // namespace nsvq
