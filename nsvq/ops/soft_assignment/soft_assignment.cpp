#include "nsvq/ops/soft_assignment/soft_assignment.h"

#include <torch/library.h>

#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/common/check_codes.h"
#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"

namespace nsvq {

namespace {

using Tensor = torch::Tensor;

void check_soft_assignment(const Tensor& latents, const Tensor& codebook, double tau) {
  check_codes("soft_assignment", latents, codebook);
  check_tau("soft_assignment", tau);
}

RowResults softmax_sums(const Tensor& rows, const Tensor& weights, const Tensor& offsets) {
  const auto logs = at::log_softmax(at::addmm(offsets, rows, weights.t()), 1);
  const auto shares = logs.exp();
  return {{}, {shares.sum(0), -(shares * logs).sum()}};
}

at::ScalarType wide_type(const Tensor& latents) {
  return latents.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

Tensor softmax_column_sums_kernel(const Tensor& latents, const Tensor& codebook, double tau) {
  const torch::NoGradGuard no_grad;
  const auto type = wide_type(latents);
  return soft_assignment(latents.to(type), codebook.to(type), tau).usage;
}

Tensor softmax_column_sums_meta(const Tensor& latents, const Tensor& codebook, double) {
  return at::empty_symint({codebook.sym_size(0)}, latents.options().dtype(wide_type(latents)));
}

}  // namespace

SoftAssignment soft_assignment_of_logits(const Tensor& latents, const Tensor& weights,
                                         const Tensor& offsets, std::optional<int64_t> chunk) {
  const auto results =
      by_row_chunks(latents, {weights, offsets}, chunk.value_or(rows_at_a_time(weights.size(0))),
                    [](const Tensor& rows, int64_t, const std::vector<Tensor>& shared) {
                      return softmax_sums(rows, shared[0], shared[1]);
                    });
  return {results.sums[0], results.sums[1]};
}

SoftAssignment soft_assignment(const Tensor& latents, const Tensor& codebook, double tau,
                               std::optional<int64_t> chunk) {
  check_soft_assignment(latents, codebook, tau);
  // The latents' own norms drop out of the softmax and only cost precision: left out.
  return soft_assignment_of_logits(latents, codebook * (2 / tau),
                                   codebook.square().sum(1) * (-1 / tau), chunk);
}

SoftAssignment soft_assignment_reference(const Tensor& latents, const Tensor& codebook,
                                         double tau) {
  check_soft_assignment(latents, codebook, tau);
  const auto shares = at::softmax(squared_distances(latents, codebook) / -tau, 1);
  return {shares.sum(0), at::special_entr(shares).sum()};
}

Tensor softmax_column_sums(const Tensor& latents, const Tensor& codebook, double tau) {
  using ColumnSums = Tensor(const Tensor&, const Tensor&, double);
  static const auto op = operator_named<ColumnSums>("nsvq::softmax_column_sums");
  return op.call(latents, codebook, tau);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("softmax_column_sums(Tensor latents, Tensor codebook, float tau) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("softmax_column_sums", softmax_column_sums_kernel);
}

TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("softmax_column_sums", softmax_column_sums_meta); }

}  // namespace nsvq
