#include "nsvq/ops/code_search/ns_search.h"

#include <torch/library.h>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using Tensor = torch::Tensor;

c10::SymInt values_in(const Tensor& latents) { return latents.sym_numel().max(1); }

// Shapes and types of the results, for tracing.

Tensor rows_like(const Tensor& latents, at::ScalarType type) {
  return at::empty_symint({latents.sym_size(0)}, latents.options().dtype(type));
}

NsSearched ns_search_meta(const Tensor& latents, const Tensor&, double) {
  return {rows_like(latents, at::kLong), rows_like(latents, at::kFloat),
          rows_like(latents, at::kFloat), rows_like(latents, at::kFloat)};
}

Tensor ns_codebook_grad_meta(const Tensor&, const Tensor& codebook, const Tensor&, const Tensor&,
                             double) {
  return at::empty_symint(codebook.sym_sizes(), codebook.options().dtype(at::kFloat));
}

}  // namespace

NsSearchedWithGrad ns_search(const Tensor& latents, const Tensor& codebook, double tau,
                             bool with_grad) {
  using Search = NsSearched(const Tensor&, const Tensor&, double);
  using WithGrad = NsSearchedWithGrad(const Tensor&, const Tensor&, double);
  static const auto search = operator_named<Search>("nsvq::ns_search");
  static const auto search_with_grad = operator_named<WithGrad>("nsvq::ns_search_with_grad");
  if (with_grad) return call_below_autograd(search_with_grad, latents, codebook, tau);
  return std::tuple_cat(call_below_autograd(search, latents, codebook, tau),
                        std::make_tuple(Tensor()));
}

NsSearchedWithGrad ns_search_then_grad(const Tensor& latents, const Tensor& codebook, double tau) {
  using Grad = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  static const auto codebook_grad = operator_named<Grad>("nsvq::ns_codebook_grad");
  auto found = ns_search(latents, codebook, tau, /*with_grad=*/false);
  const auto &indices = std::get<0>(found), &denominators = std::get<3>(found);
  std::get<4>(found) =
      call_below_autograd(codebook_grad, latents, codebook, indices, denominators, tau);
  return found;
}

Tensor ns_mean_loss(const Tensor& losses, const Tensor& latents) {
  return (losses.sum(at::kDouble) / values_in(latents)).to(at::kFloat);
}

Tensor ns_loss_gradient(const Tensor& loss_gradient, const Tensor& grad, const Tensor& latents) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "ns_loss: has no second derivative");
  // One factor in fp64, rounded once when multiplied: results of training depend on it.
  const auto scale = c10::SymFloat(2.0) / static_cast<c10::SymFloat>(values_in(latents));
  return grad * (loss_gradient * c10::Scalar(scale));
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "ns_search(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor distances, "
      "Tensor losses, Tensor denominators)");
  m.def(
      "ns_codebook_grad(Tensor latents, Tensor codebook, Tensor indices, Tensor denominators, "
      "float tau) -> Tensor");
  m.def(
      "ns_search_with_grad(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor "
      "distances, Tensor losses, Tensor denominators, Tensor grad)");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("ns_search_with_grad", ns_search_then_grad);
}

TORCH_LIBRARY_IMPL(nsvq, Meta, m) {
  m.impl("ns_search", ns_search_meta);
  m.impl("ns_codebook_grad", ns_codebook_grad_meta);
}

}  // namespace nsvq
