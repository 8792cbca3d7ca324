#include "nsvq/ops/transformer/cross_entropy_rows.h"

#include <torch/library.h>
#include <torch/types.h>

#include <optional>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::Tensor;

Tensor cross_entropy_rows_cpu(const Tensor& logits, const Tensor& targets,
                              const std::optional<Tensor>& factors, bool gradient) {
  check_cross_entropy_rows(logits, targets, factors.value_or(Tensor()));
  const auto wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto own = targets.unsqueeze(1);
  auto logs = at::log_softmax(logits, 1, wide);
  const auto losses = logs.gather(1, own).squeeze(1).neg();
  if (!gradient) return losses;
  auto shares = logs.exp_();
  shares.scatter_(1, own, shares.gather(1, own) - 1);
  logits.copy_(factors ? shares * factors->unsqueeze(1) : shares);
  return losses;
}

}  // namespace

void check_cross_entropy_rows(const Tensor& logits, const Tensor& targets, const Tensor& factors) {
  TORCH_CHECK(logits.dim() == 2 && logits.size(1) > 0 && targets.dim() == 1 &&
                  targets.size(0) == logits.size(0) && targets.scalar_type() == at::kLong,
              "cross_entropy_rows: needs logits [n, K] and targets [n] of int64, got ",
              logits.sizes(), " and ", targets.sizes(), " ", targets.scalar_type());
  TORCH_CHECK(targets.device() == logits.device(), "cross_entropy_rows: logits are on ",
              logits.device(), ", but targets are on ", targets.device());
  if (!factors.defined()) return;
  TORCH_CHECK(
      factors.sizes() == targets.sizes() && factors.device() == logits.device() &&
          (factors.scalar_type() == at::kFloat || factors.scalar_type() == at::kDouble),
      "cross_entropy_rows: factors must be [n] of fp32 on the logits' device, but they are ",
      factors.sizes(), " ", factors.scalar_type(), " on ", factors.device());
}

Tensor cross_entropy_rows(const Tensor& logits, const Tensor& targets, const Tensor& factors,
                          LogitsAfter after) {
  using Rows = Tensor(const Tensor&, const Tensor&, const std::optional<Tensor>&, bool);
  static const auto op = operator_named<Rows>("nsvq::cross_entropy_rows_");
  const auto given = factors.defined() ? std::optional(factors) : std::nullopt;
  return call_below_autograd(op, logits, targets, given, after == LogitsAfter::gradient);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "cross_entropy_rows_(Tensor(a!) logits, Tensor targets, Tensor? factors, bool gradient) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CPU, m) { m.impl("cross_entropy_rows_", cross_entropy_rows_cpu); }

}  // namespace nsvq
