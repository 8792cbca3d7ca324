#include "nsvq/ops/streaming.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace nsvq {

namespace {

using Pair = std::tuple<torch::Tensor, torch::Tensor>;

template <typename Signature>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// The weights are constants, so the gradient is known in closed form and needs them once more.
class StreamingNsLoss : public torch::autograd::Function<StreamingNsLoss> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor latents,
                               torch::Tensor codebook, torch::Tensor indices, double tau) {
    using Terms = Pair(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&, double);
    static const auto terms = operator_named<Terms>("nsvq::ns_terms");
    const auto [losses, denominators] = terms.call(latents, codebook, indices, tau);
    context->save_for_backward({latents, codebook, indices, denominators});
    context->saved_data["tau"] = tau;
    return (losses.sum(at::kDouble) / latents.numel()).to(at::kFloat);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    using Pull = torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                               const torch::Tensor&, double);
    static const auto pull = operator_named<Pull>("nsvq::ns_pull");
    const auto saved = context->get_saved_variables();
    const double tau = context->saved_data["tau"].toDouble();
    const double scale = 2.0 / static_cast<double>(saved[0].numel());
    return {{},
            pull.call(saved[0], saved[1], saved[2], saved[3], tau) * (gradients[0] * scale),
            {},
            {}};
  }
};

}  // namespace

Pair exact_nearest_codes(const torch::Tensor& latents, const torch::Tensor& codebook) {
  using Search = Pair(const torch::Tensor&, const torch::Tensor&);
  static const auto search = operator_named<Search>("nsvq::exact_nearest_codes");
  const torch::NoGradGuard no_grad;
  return search.call(latents, codebook);
}

Pair exact_nearest_codes_reference(const torch::Tensor& latents, const torch::Tensor& codebook) {
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

torch::Tensor streaming_ns_loss(const torch::Tensor& latents, const torch::Tensor& codebook,
                                const torch::Tensor& indices, double tau) {
  TORCH_CHECK(tau > 0, "streaming_ns_loss: tau must be positive, but it is ", tau);
  TORCH_CHECK(latents.scalar_type() == at::kFloat && codebook.scalar_type() == at::kFloat,
              "streaming_ns_loss: latents and codebook must be fp32");
  TORCH_CHECK(indices.dim() == 1 && indices.size(0) == latents.size(0),
              "streaming_ns_loss: indices must be [N] with N = ", latents.size(0),
              ", but they are ", indices.sizes());
  if (latents.numel() == 0) return codebook.sum() * 0;
  return StreamingNsLoss::apply(latents.detach(), codebook, indices, tau);
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "exact_nearest_codes(Tensor latents, Tensor codebook) -> (Tensor indices, Tensor distances)");
  m.def(
      "ns_terms(Tensor latents, Tensor codebook, Tensor indices, float tau) -> (Tensor losses, "
      "Tensor denominators)");
  m.def(
      "ns_pull(Tensor latents, Tensor codebook, Tensor indices, Tensor denominators, float tau) -> "
      "Tensor");
}

}  // namespace nsvq
