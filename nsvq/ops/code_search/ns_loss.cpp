#include <torch/library.h>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/distance_gradients.h"
#include "nsvq/ops/code_search/ns_search.h"
#include "nsvq/ops/common/check_codes.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;

const auto& ns_loss_operator() {
  using Loss = Tensor(const Tensor&, const Tensor&, const Tensor&, double);
  static const auto op = operator_named<Loss>("nsvq::ns_loss");
  return op;
}

/// Corrects the sums where a given index differs from the search's winner (it was chosen in less
/// precision): the found winner's term, with weight `added`, joins the sum, and the given code's,
/// with weight `left`, leaves it. Both are 0 where the two agree.
struct Exchange {
  Exchange(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
           const Tensor& winners, const Tensor& distances, const Tensor& denominators, double tau)
      : difference(code_differences(latents, codebook, indices)),
        distance(difference.square().sum(1)),
        added(at::where(indices == winners, 0, denominators.reciprocal())),
        left(((distances - distance) / tau).exp() * added) {}

  Tensor difference, distance, added, left;
};

struct LossAndGrad {
  Tensor loss, grad;  ///< those of ns_search
};

LossAndGrad loss_of_given(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                          double tau, bool with_grad) {
  check_indices("ns_loss", indices, latents);
  auto [winners, distances, losses, denominators, grad] =
      ns_search(latents, codebook, tau, with_grad);
  const Exchange one(latents, codebook, indices, winners, distances, denominators, tau);
  losses = losses + one.added * distances - one.left * one.distance;
  if (with_grad) {
    const auto winner = code_differences(latents, codebook, winners);
    add_to_code_rows(grad, winners, winner * -one.added.unsqueeze(1));
    add_to_code_rows(grad, indices, one.difference * one.left.unsqueeze(1));
  }
  return {ns_mean_loss(losses, latents), grad};
}

Tensor ns_loss_kernel(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                      double tau) {
  return loss_of_given(latents, codebook, indices, tau, /*with_grad=*/false).loss;
}

class NsLoss : public torch::autograd::Function<NsLoss> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& latents, const Tensor& codebook,
                        const Tensor& indices, double tau) {
    const auto [loss, grad] = loss_of_given(latents, codebook, indices, tau, /*with_grad=*/true);
    context->save_for_backward({latents, grad});
    context->saved_data["type"] = codebook.scalar_type();
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto type = context->saved_data["type"].toScalarType();
    return {{}, ns_loss_gradient(gradients[0], saved[1], saved[0]).to(type), {}, {}};
  }
};

Tensor ns_loss_autograd(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                        double tau) {
  if (!needs_gradient({codebook})) {
    return call_below_autograd(ns_loss_operator(), latents, codebook, indices, tau);
  }
  return NsLoss::apply(latents.detach(), codebook, indices, tau);
}

Tensor ns_loss_meta(const Tensor& latents, const Tensor&, const Tensor&, double) {
  return at::empty({}, latents.options().dtype(at::kFloat));
}

}  // namespace

Tensor ns_loss(const Tensor& latents, const Tensor& codebook, const Tensor& indices, double tau) {
  return ns_loss_operator().call(latents, codebook, indices, tau);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("ns_loss(Tensor latents, Tensor codebook, Tensor indices, float tau) -> Tensor");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) { m.impl("ns_loss", ns_loss_kernel); }
TORCH_LIBRARY_IMPL(nsvq, Autograd, m) { m.impl("ns_loss", ns_loss_autograd); }
TORCH_LIBRARY_IMPL(nsvq, Meta, m) { m.impl("ns_loss", ns_loss_meta); }

}  // namespace nsvq
