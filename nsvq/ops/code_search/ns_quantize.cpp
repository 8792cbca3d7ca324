// The operators that Python calls (docs/kernels.md), with gradients and with shapes for tracing.
//
// Distances have gradients, 2 (z_i - c_q) for a latent and the opposite for its code, so that their
// mean is the embedding and the commitment loss. The NS loss has one for the codebook alone, with
// the weights as constants.

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <initializer_list>
#include <tuple>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/common/dispatch.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;
using Found = std::tuple<Tensor, Tensor>;
using Quantized = std::tuple<Tensor, Tensor, Tensor>;
using Searched = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using SearchedAndPulled = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

/// An operator below autograd: its kernel for the device.
template <typename Signature, typename... Arguments>
auto call_kernel(const char* name, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return operator_named<Signature>(name).call(arguments...);
}

using Search = Searched(const Tensor&, const Tensor&, double);
using SearchPull = SearchedAndPulled(const Tensor&, const Tensor&, double);

/// indices, distances, losses, denominators, and the pull if it is wanted.
SearchedAndPulled search(const Tensor& latents, const Tensor& codebook, double tau, bool pull) {
  if (pull) return call_kernel<SearchPull>("nsvq::ns_search_pull", latents, codebook, tau);
  return std::tuple_cat(call_kernel<Search>("nsvq::ns_search", latents, codebook, tau),
                        std::make_tuple(Tensor()));
}

c10::SymInt values_in(const Tensor& latents) { return latents.sym_numel().max(1); }

Tensor mean_loss(const Tensor& losses, const Tensor& latents) {
  return (losses.sum(at::kDouble) / values_in(latents)).to(at::kFloat);
}

/// A tensor of its own: the pull stays as it is for another backward pass.
Tensor loss_gradient(const Tensor& gradient, const Tensor& pull, const Tensor& latents) {
  TORCH_CHECK(!at::GradMode::is_enabled(), "ns_loss: has no second derivative");
  return pull * (gradient * 2 / values_in(latents));
}

bool needs_gradient(std::initializer_list<Tensor> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& one) { return one.requires_grad(); });
}

/// z_i - c_q [N, d] in fp32. A GPU answers latents that are not finite with index -1; they have no
/// code, and their difference with any is not finite either.
Tensor differences(const Tensor& latents, const Tensor& codebook, const Tensor& indices) {
  return latents.to(at::kFloat) - codebook.index_select(0, indices.clamp_min(0)).to(at::kFloat);
}

/// Adds rows to those of a codebook's gradient [K, d], in place: nothing else has its size.
void add_rows(Tensor sums, const Tensor& indices, const Tensor& rows) {
  sums.index_add_(0, indices.clamp_min(0), rows);
}

/// What distances give to latents and codebook; `sums` is what the codebook has already, fp32 and
/// free to be written to, or undefined.
variable_list distance_gradients(AutogradContext* context, const Tensor& gradient, Tensor sums) {
  const auto saved = context->get_saved_variables();
  const auto &latents = saved[0], &codebook = saved[1], &indices = saved[2];
  const auto towards = differences(latents, codebook, indices) * (gradient * 2).unsqueeze(1);
  Tensor of_latents, of_codebook;
  if (context->needs_input_grad(0)) of_latents = towards.to(latents.scalar_type());
  if (context->needs_input_grad(1)) {
    if (!sums.defined()) sums = at::zeros_like(codebook, at::kFloat);
    add_rows(sums, indices, -towards);
    of_codebook = sums.to(codebook.scalar_type());
  }
  return {of_latents, of_codebook};
}

Found nearest_codes_kernel(const Tensor& latents, const Tensor& codebook) {
  return call_kernel<Found(const Tensor&, const Tensor&)>("nsvq::exact_nearest_codes", latents,
                                                          codebook);
}

class NearestCodes : public torch::autograd::Function<NearestCodes> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& latents,
                               const Tensor& codebook) {
    const auto [indices, distances] = nearest_codes_kernel(latents, codebook);
    context->save_for_backward({latents, codebook, indices});
    context->mark_non_differentiable({indices});
    context->set_materialize_grads(false);
    return {indices, distances};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (!gradients[1].defined()) return {{}, {}};
    return distance_gradients(context, gradients[1], {});
  }
};

Found nearest_codes_autograd(const Tensor& latents, const Tensor& codebook) {
  if (!needs_gradient({latents, codebook})) {
    return call_kernel<Found(const Tensor&, const Tensor&)>("nsvq::nearest_codes", latents,
                                                            codebook);
  }
  const auto results = NearestCodes::apply(latents, codebook);
  return {results[0], results[1]};
}

Quantized ns_quantize_kernel(const Tensor& latents, const Tensor& codebook, double tau) {
  const auto [indices, distances, losses, denominators, pull] =
      search(latents, codebook, tau, /*pull=*/false);
  return {indices, distances, mean_loss(losses, latents)};
}

class NsQuantize : public torch::autograd::Function<NsQuantize> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& latents,
                               const Tensor& codebook, double tau) {
    const auto [indices, distances, losses, denominators, pull] =
        search(latents, codebook, tau, codebook.requires_grad());
    context->save_for_backward({latents, codebook, indices, pull});
    context->mark_non_differentiable({indices});
    context->set_materialize_grads(false);
    return {indices, distances, mean_loss(losses, latents)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    Tensor sums;
    if (gradients[2].defined() && context->needs_input_grad(1)) {
      sums = loss_gradient(gradients[2], saved[3], saved[0]);
    }
    if (!gradients[1].defined()) {
      return {{}, sums.defined() ? sums.to(saved[1].scalar_type()) : Tensor(), {}};
    }
    const auto both = distance_gradients(context, gradients[1], sums);
    return {both[0], both[1], {}};
  }
};

Quantized ns_quantize_autograd(const Tensor& latents, const Tensor& codebook, double tau) {
  if (!needs_gradient({latents, codebook})) {
    return call_kernel<Quantized(const Tensor&, const Tensor&, double)>("nsvq::ns_quantize",
                                                                        latents, codebook, tau);
  }
  const auto results = NsQuantize::apply(latents, codebook, tau);
  return {results[0], results[1], results[2]};
}

/// The search finds winners of its own. A given index that is another one (chosen in less
/// precision) takes the winner's place: the winner's term, with weight `added`, joins the sum, and
/// the given code's, with weight `left`, leaves it. Both are 0 where the two agree.
struct Exchange {
  Exchange(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
           const Tensor& winners, const Tensor& distances, const Tensor& denominators, double tau)
      : difference(differences(latents, codebook, indices)),
        distance(difference.square().sum(1)),
        added(at::where(indices == winners, 0, denominators.reciprocal())),
        left(((distances - distance) / tau).exp() * added) {}

  Tensor difference, distance, added, left;
};

/// Loss, and the pull if it is wanted.
Found loss_of_given(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                    double tau, bool with_pull) {
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.dim() == 1 &&
                  indices.sym_size(0) == latents.sym_size(0),
              "ns_loss: indices must be int64 [N] with N = ", latents.sym_size(0),
              ", but they are ", indices.scalar_type(), " ", indices.sym_sizes());
  auto [winners, distances, losses, denominators, pull] = search(latents, codebook, tau, with_pull);
  const Exchange one(latents, codebook, indices, winners, distances, denominators, tau);
  losses = losses + one.added * distances - one.left * one.distance;
  if (with_pull) {
    const auto winner = differences(latents, codebook, winners);
    add_rows(pull, winners, winner * -one.added.unsqueeze(1));
    add_rows(pull, indices, one.difference * one.left.unsqueeze(1));
  }
  return {mean_loss(losses, latents), pull};
}

Tensor ns_loss_kernel(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                      double tau) {
  return std::get<0>(loss_of_given(latents, codebook, indices, tau, /*with_pull=*/false));
}

class NsLoss : public torch::autograd::Function<NsLoss> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& latents, const Tensor& codebook,
                        const Tensor& indices, double tau) {
    const auto [loss, pull] = loss_of_given(latents, codebook, indices, tau, /*with_pull=*/true);
    context->save_for_backward({latents, pull});
    context->saved_data["type"] = codebook.scalar_type();
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto type = context->saved_data["type"].toScalarType();
    return {{}, loss_gradient(gradients[0], saved[1], saved[0]).to(type), {}, {}};
  }
};

Tensor ns_loss_autograd(const Tensor& latents, const Tensor& codebook, const Tensor& indices,
                        double tau) {
  using Loss = Tensor(const Tensor&, const Tensor&, const Tensor&, double);
  if (!needs_gradient({codebook})) {
    return call_kernel<Loss>("nsvq::ns_loss", latents, codebook, indices, tau);
  }
  return NsLoss::apply(latents.detach(), codebook, indices, tau);
}

// Shapes and types of the results, for tracing.

Quantized ns_quantize_meta(const Tensor& latents, const Tensor& codebook, double) {
  const auto [indices, distances] = nearest_codes_kernel(latents, codebook);
  return {indices, distances, at::empty({}, distances.options())};
}

Tensor ns_loss_meta(const Tensor& latents, const Tensor&, const Tensor&, double) {
  return at::empty({}, latents.options().dtype(at::kFloat));
}

Tensor code_usage_meta(const Tensor& indices, int64_t codes) {
  return at::empty({codes}, indices.options());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def("nearest_codes(Tensor latents, Tensor codebook) -> (Tensor indices, Tensor distances)");
  m.def("ns_loss(Tensor latents, Tensor codebook, Tensor indices, float tau) -> Tensor");
  m.def(
      "ns_quantize(Tensor latents, Tensor codebook, float tau) -> (Tensor indices, Tensor "
      "distances, Tensor loss)");
}

TORCH_LIBRARY_IMPL(nsvq, CompositeExplicitAutograd, m) {
  m.impl("nearest_codes", nearest_codes_kernel);
  m.impl("ns_loss", ns_loss_kernel);
  m.impl("ns_quantize", ns_quantize_kernel);
}

TORCH_LIBRARY_IMPL(nsvq, Autograd, m) {
  m.impl("nearest_codes", nearest_codes_autograd);
  m.impl("ns_loss", ns_loss_autograd);
  m.impl("ns_quantize", ns_quantize_autograd);
}

TORCH_LIBRARY_IMPL(nsvq, Meta, m) {
  m.impl("ns_loss", ns_loss_meta);
  m.impl("ns_quantize", ns_quantize_meta);
  m.impl("code_usage", code_usage_meta);
}

}  // namespace nsvq
