#include <torch/library.h>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/distance_gradients.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;
using Found = std::tuple<Tensor, Tensor>;

const auto& nearest_codes_operator() {
  static const auto op = operator_named<Found(const Tensor&, const Tensor&)>("nsvq::nearest_codes");
  return op;
}

class NearestCodes : public torch::autograd::Function<NearestCodes> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& latents,
                               const Tensor& codebook) {
    const auto [indices, distances] =
        call_below_autograd(nearest_codes_operator(), latents, codebook);
    context->save_for_backward({latents, codebook, indices});
    context->mark_non_differentiable({indices});
    context->set_materialize_grads(false);
    return {indices, distances};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[1].defined()) return {{}, {}};
    const auto results = distance_gradients(context, gradients[1], {});
    return {results.latents, results.codebook};
  }
};

Found nearest_codes_autograd(const Tensor& latents, const Tensor& codebook) {
  if (!needs_gradient({latents, codebook})) {
    return call_below_autograd(nearest_codes_operator(), latents, codebook);
  }
  const auto results = NearestCodes::apply(latents, codebook);
  return {results[0], results[1]};
}

Found nearest_codes_meta(const Tensor& latents, const Tensor&) {
  const auto rows = [&](at::ScalarType type) {
    return at::empty_symint({latents.sym_size(0)}, latents.options().dtype(type));
  };
  return {rows(at::kLong), rows(at::kFloat)};
}

}  // namespace

Found nearest_codes(const Tensor& latents, const Tensor& codebook) {
  return nearest_codes_operator().call(latents, codebook);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("nearest_codes(Tensor latents, Tensor codebook) -> (Tensor indices, Tensor distances)");
}

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("nearest_codes", nearest_codes_autograd); }
TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("nearest_codes", nearest_codes_meta); }

}  // namespace nsvq
