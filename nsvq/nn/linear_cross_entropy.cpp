#include "nsvq/nn/linear_cross_entropy.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/version.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/ops/transformer/cross_entropy_rows.h"

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
  /// Whether a kernel makes gradients of logits.
  bool fused() const { return x.is_cuda() && x.scalar_type() == at::kBFloat16; }
  /// The kernel works where the logits lie; otherwise there are copies of them in fp32.
  int64_t rows_at_once(int64_t logits_at_once) const {
    const int64_t most = fused() ? 4 * logits_at_once : logits_at_once;
    return std::max<int64_t>(most / weight.size(0), 1);
  }
};

/// work(begin, rows) for each chunk of `count` rows.
template <typename Work>
void by_chunks(int64_t count, int64_t most, Work work) {
  for (int64_t begin = 0; begin < count; begin += most) work(begin, std::min(most, count - begin));
}

/// Adds a b to `sum`, which is in fp32, of matrices in bf16 on a GPU.
void add_product(Tensor& sum, const Tensor& a, const Tensor& b) {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 11
  at::addmm_out(sum, sum, a, b, at::kFloat);
#else
  sum += a.matmul(b);
#endif
}

/// Gradients of losses, of which each row's is times a factor, by the operands.
class LossGradients {
 public:
  explicit LossGradients(const Operands& operands)
      : operands_(operands),
        x_(at::empty_like(operands.x)),
        weight_(at::zeros(operands.weight.sizes(), operands.x.options().dtype(operands.wide()))),
        bias_(at::zeros({operands.weight.size(0)}, weight_.options())) {}

  /// For rows from `begin` on, by their softmax [rows, K], which is overwritten, and the factors
  /// [rows], or undefined: 1.
  void add(int64_t begin, Tensor shares, const Tensor& targets, const Tensor& factors) {
    const int64_t rows = shares.size(0);
    // The gradient of a row's loss by its logits is its softmax, less 1 at the target.
    const auto own = targets.narrow(0, begin, rows).unsqueeze(1);
    shares.scatter_(1, own, shares.gather(1, own) - 1);
    if (operands_.bias.defined()) {
      bias_ += factors.defined() ? shares.t().mv(factors) : shares.sum(0);
    }
    auto scaled = at::empty(shares.sizes(), operands_.x.options());
    if (factors.defined()) {
      at::mul_out(scaled, shares, factors.unsqueeze(1));
    } else {
      scaled.copy_(shares);
    }
    x_.narrow(0, begin, rows).copy_(scaled.matmul(operands_.weight));
    weight_ += scaled.t().matmul(operands_.x.narrow(0, begin, rows));
  }

  /// For rows from `begin` on, by the gradients [rows, K] of their logits in the operands' type.
  void add_scaled(int64_t begin, const Tensor& gradients) {
    const int64_t rows = gradients.size(0);
    if (operands_.bias.defined()) bias_ += gradients.sum(0, /*keepdim=*/false, at::kFloat);
    auto own = x_.narrow(0, begin, rows);
    at::mm_out(own, gradients, operands_.weight);
    add_product(weight_, gradients.t(), operands_.x.narrow(0, begin, rows));
  }

  /// By x, weight and bias.
  variable_list all() const { return {x_, weight_, operands_.bias.defined() ? bias_ : Tensor()}; }

 private:
  const Operands& operands_;
  Tensor x_, weight_, bias_;
};

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& given_bias, const Tensor& targets, bool equal,
                        int64_t logits_at_once) {
    const auto bias = given_bias.value_or(Tensor());
    const auto precision = autocast_precision(x.device());
    const AutocastGuard off(Precision::fp32, x.device());
    const auto cast = [&](const Tensor& values) {
      if (precision == Precision::fp32 || !values.defined()) return values;
      return values.to(precision == Precision::bf16 ? at::kBFloat16 : at::kHalf);
    };
    const Operands operands{cast(x), cast(weight), cast(bias)};
    std::optional<LossGradients> gradients;
    if (equal) gradients.emplace(operands);
    auto losses = at::empty({x.size(0)}, x.options().dtype(operands.wide()));
    const int64_t most = operands.rows_at_once(logits_at_once);
    by_chunks(x.size(0), most, [&](int64_t begin, int64_t rows) {
      if (operands.fused()) {
        const auto logits = operands.logits(begin, rows);
        const auto after = gradients ? LogitsAfter::gradient : LogitsAfter::kept;
        losses.narrow(0, begin, rows)
            .copy_(cross_entropy_rows(logits, targets.narrow(0, begin, rows), {}, after));
        if (gradients) gradients->add_scaled(begin, logits);
        return;
      }
      const auto own = targets.narrow(0, begin, rows).unsqueeze(1);
      auto logs = at::log_softmax(operands.logits(begin, rows), 1, operands.wide());
      losses.narrow(0, begin, rows).copy_(logs.gather(1, own).squeeze(1).neg());
      if (gradients) gradients->add(begin, logs.exp_(), targets, {});
    });
    if (gradients) {
      context->save_for_backward(gradients->all());
    } else {
      context->save_for_backward({operands.x, operands.weight, operands.bias, targets});
    }
    context->saved_data["equal"] = equal;
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
    auto all = context->saved_data["equal"].toBool() ? of_equal_rows(context, gradients[0])
                                                     : of_any_rows(context, gradients[0]);
    const auto types = context->saved_data["types"].toIntVector();
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].defined()) all[i] = all[i].to(static_cast<at::ScalarType>(types[i]));
    }
    all.resize(6);
    return all;
  }

 private:
  static variable_list of_equal_rows(AutogradContext* context, const Tensor& gradient) {
    auto all = context->get_saved_variables();
    if (gradient.size(0) == 0) return all;
    for (auto& one : all) {
      if (one.defined()) one = one * gradient[0];
    }
    return all;
  }

  static variable_list of_any_rows(AutogradContext* context, const Tensor& gradient) {
    const auto saved = context->get_saved_variables();
    const Operands operands{saved[0], saved[1], saved[2]};
    LossGradients all(operands);
    const int64_t most = operands.rows_at_once(context->saved_data["logits_at_once"].toInt());
    by_chunks(operands.x.size(0), most, [&](int64_t begin, int64_t rows) {
      if (operands.fused()) {
        const auto logits = operands.logits(begin, rows);
        cross_entropy_rows(logits, saved[3].narrow(0, begin, rows),
                           gradient.narrow(0, begin, rows).contiguous(), LogitsAfter::gradient);
        all.add_scaled(begin, logits);
        return;
      }
      all.add(begin, at::softmax(operands.logits(begin, rows), 1, operands.wide()), saved[3],
              gradient.narrow(0, begin, rows));
    });
    return all.all();
  }
};

}  // namespace

torch::Tensor linear_cross_entropy(const torch::Tensor& x, const torch::Tensor& weight,
                                   const torch::Tensor& bias, const torch::Tensor& targets,
                                   RowGradients rows, int64_t logits_at_once) {
  TORCH_CHECK(
      x.dim() == 2 && weight.dim() == 2 && x.size(1) == weight.size(1) && targets.dim() == 1 &&
          targets.size(0) == x.size(0) && targets.scalar_type() == at::kLong,
      "linear_cross_entropy: needs x [N, d], weight [K, d] and targets [N] of int64, got ",
      x.sizes(), ", ", weight.sizes(), " and ", targets.sizes(), " ", targets.scalar_type());
  const auto given = bias.defined() ? std::optional<Tensor>(bias) : std::nullopt;
  return LinearCrossEntropy::apply(x, weight, given, targets, rows == RowGradients::equal,
                                   logits_at_once);
}

}  // namespace nsvq
