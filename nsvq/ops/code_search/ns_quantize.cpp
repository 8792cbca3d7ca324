#include <torch/library.h>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/distance_gradients.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;
using Quantized = std::tuple<Tensor, Tensor, Tensor>;

const auto& ns_quantize_operator() {
  using Quantize = Quantized(const Tensor&, const Tensor&, double);
  static const auto op = operator_named<Quantize>("nsvq::ns_quantize");
  return op;
}

/// The search of the device, then the mean of the losses.
Quantized ns_quantize_kernel(const Tensor& latents, const Tensor& codebook, double tau) {
  const auto [indices, distances, losses, denominators, grad] =
      ns_search(latents, codebook, tau, /*with_grad=*/false);
  return {indices, distances, ns_mean_loss(losses, latents)};
}

class NsQuantize : public torch::autograd::Function<NsQuantize> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& latents,
                               const Tensor& codebook, double tau) {
    const auto [indices, distances, losses, denominators, grad] =
        ns_search(latents, codebook, tau, /*with_grad=*/codebook.requires_grad());
    context->save_for_backward({latents, codebook, indices, grad});
    context->mark_non_differentiable({indices});
    context->set_materialize_grads(false);  // unused distances cost no work in backward
    return {indices, distances, ns_mean_loss(losses, latents)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &latents = saved[0], &codebook = saved[1], &grad = saved[3];
    const auto &of_distances = gradients[1], &of_loss = gradients[2];
    Tensor codebook_grad;
    if (of_loss.defined() && context->needs_input_grad(1)) {
      codebook_grad = ns_loss_gradient(of_loss, grad, latents);
    }
    if (of_distances.defined()) {
      const auto results = distance_gradients(context, of_distances, codebook_grad);
      return {results.latents, results.codebook, {}};
    }
    if (codebook_grad.defined()) codebook_grad = codebook_grad.to(codebook.scalar_type());
    return {{}, codebook_grad, {}};
  }
};

Quantized ns_quantize_autograd(const Tensor& latents, const Tensor& codebook, double tau) {
  if (!needs_gradient({latents, codebook})) {
    return call_below_autograd(ns_quantize_operator(), latents, codebook, tau);
  }
  const auto results = NsQuantize::apply(latents, codebook, tau);
  return {results[0], results[1], results[2]};
}

Quantized ns_quantize_meta(const Tensor& latents, const Tensor& codebook, double tau) {
  const auto [indices, distances, losses, denominators, grad] =
      ns_search(latents, codebook, tau, /*with_grad=*/false);
  return {indices, distances, at::empty({}, distances.options())};
}

}  // namespace

NsQuantized ns_quantize(const Tensor& latents, const Tensor& codebook, double tau) {
  const auto [indices, distances, loss] = ns_quantize_operator().call(latents, codebook, tau);
  return {indices, distances, loss};
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "ns_quantize(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor "
      "distances, Tensor loss)");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("ns_quantize", ns_quantize_kernel);
}
TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("ns_quantize", ns_quantize_autograd); }
TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("ns_quantize", ns_quantize_meta); }

}  // namespace nsvq
