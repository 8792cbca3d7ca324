#include "nsvq/ops/code_search/code_search.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using Tensor = torch::Tensor;
using Found = std::tuple<Tensor, Tensor>;
using Searched = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using SearchedAndPulled = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Searched search(const Tensor& latents, const Tensor& codebook, double tau) {
  using Search = Searched(const Tensor&, const Tensor&, double);
  static const auto search = operator_named<Search>("nsvq::ns_search");
  return search.call(latents, codebook, tau);
}

SearchedAndPulled search_and_pull(const Tensor& latents, const Tensor& codebook, double tau) {
  using SearchPull = SearchedAndPulled(const Tensor&, const Tensor&, double);
  static const auto search = operator_named<SearchPull>("nsvq::ns_search_pull");
  return search.call(latents, codebook, tau);
}

Tensor mean_loss(const Tensor& losses, const Tensor& latents) {
  return (losses.sum(at::kDouble) / latents.numel()).to(at::kFloat);
}

class NsSearchFunction : public torch::autograd::Function<NsSearchFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const Tensor& latents, const Tensor& codebook,
                                                double tau) {
    const auto [indices, distances, losses, denominators, pull] =
        search_and_pull(latents, codebook, tau);
    context->save_for_backward({pull});
    context->saved_data["scale"] = 2.0 / static_cast<double>(latents.numel());
    context->saved_data["type"] = codebook.scalar_type();
    context->mark_non_differentiable({indices, distances});
    return {indices, distances, mean_loss(losses, latents)};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto pull = context->get_saved_variables()[0];
    const double scale = context->saved_data["scale"].toDouble();
    const auto type = context->saved_data["type"].toScalarType();
    return {{}, (pull * (gradients[2] * scale)).to(type), {}};
  }
};

// Shapes and types of the results, for tracing.

Tensor rows_like(const Tensor& latents, at::ScalarType type) {
  return at::empty_symint({latents.sym_size(0)}, latents.options().dtype(type));
}

Found exact_nearest_codes_meta(const Tensor& latents, const Tensor&) {
  return {rows_like(latents, at::kLong), rows_like(latents, at::kFloat)};
}

Searched ns_search_meta(const Tensor& latents, const Tensor&, double) {
  return {rows_like(latents, at::kLong), rows_like(latents, at::kFloat),
          rows_like(latents, at::kFloat), rows_like(latents, at::kFloat)};
}

Tensor ns_pull_meta(const Tensor&, const Tensor& codebook, const Tensor&, const Tensor&, double) {
  return at::empty_symint(codebook.sym_sizes(), codebook.options().dtype(at::kFloat));
}

}  // namespace

Found exact_nearest_codes(const Tensor& latents, const Tensor& codebook) {
  using Search = Found(const Tensor&, const Tensor&);
  static const auto search = operator_named<Search>("nsvq::exact_nearest_codes");
  const torch::NoGradGuard no_grad;
  return search.call(latents, codebook);
}

Found exact_nearest_codes_reference(const Tensor& latents, const Tensor& codebook) {
  const torch::NoGradGuard no_grad;
  const auto z = latents.to(at::kDouble), c = codebook.to(at::kDouble);
  auto indices = at::empty({z.size(0)}, at::kLong), distances = at::empty({z.size(0)}, at::kFloat);
  for (int64_t i = 0; i < z.size(0); ++i) {
    // Sums over a dimension differ in their order between shapes; cumulative ones do not.
    const auto of_all = (z[i] - c).square().cumsum(1).select(1, -1);
    const auto least = of_all.argmin().item<int64_t>();
    indices[i] = least;
    distances[i] = of_all[least];
  }
  return {indices, distances};
}

NsSearch ns_search(const Tensor& latents, const Tensor& codebook, double tau) {
  if (latents.numel() == 0) {
    const auto [indices, distances] = exact_nearest_codes(latents, codebook);
    return {indices, distances, codebook.to(at::kFloat).sum() * 0};
  }
  if (at::GradMode::is_enabled() && codebook.requires_grad()) {
    const auto results = NsSearchFunction::apply(latents.detach(), codebook, tau);
    return {results[0], results[1], results[2]};
  }
  const auto [indices, distances, losses, denominators] =
      search(latents.detach(), codebook.detach(), tau);
  return {indices, distances, mean_loss(losses, latents)};
}

SearchedAndPulled ns_search_then_pull(const Tensor& latents, const Tensor& codebook, double tau) {
  using Pull = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double);
  static const auto pull = operator_named<Pull>("nsvq::ns_pull");
  const auto [indices, distances, losses, denominators] = search(latents, codebook, tau);
  return {indices, distances, losses, denominators,
          pull.call(latents, codebook, indices, denominators, tau)};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "exact_nearest_codes(Tensor latents, Tensor codebook) -> (Tensor indices, Tensor distances)");
  m.def(
      "ns_search(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor distances, "
      "Tensor losses, Tensor denominators)");
  m.def(
      "ns_pull(Tensor latents, Tensor codebook, Tensor indices, Tensor denominators, float tau) -> "
      "Tensor");
  m.def(
      "ns_search_pull(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor "
      "distances, Tensor losses, Tensor denominators, Tensor pull)");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("ns_search_pull", ns_search_then_pull);
}

TORCH_LIBRARY_IMPL(nsvq, Meta, m) {
  m.impl("exact_nearest_codes", exact_nearest_codes_meta);
  m.impl("ns_search", ns_search_meta);
  m.impl("ns_pull", ns_pull_meta);
}

}  // namespace nsvq
