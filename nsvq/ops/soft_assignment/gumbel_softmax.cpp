#include "nsvq/ops/soft_assignment/gumbel_softmax.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"
#include "nsvq/ops/soft_assignment/softmax_rows.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Tensor = torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

/// Calls visit(latents, logits, first) for `chunk` rows of the latents at a time.
template <typename Visit>
void each_chunk(const Tensor& latents, const Tensor& weights, const Tensor& offsets, int64_t chunk,
                Visit visit) {
  for (int64_t first = 0; first < latents.size(0); first += chunk) {
    const auto part = latents.slice(0, first, first + chunk);
    visit(part, at::addmm(offsets, part, weights.t()), first);
  }
}

/// A guard while which a GPU's products are rounded to TF32, where noise hides the error.
std::optional<Tf32Guard> rounding(const Tensor& latents, const MaybeTensor& seed) {
  if (latents.is_cuda() && seed && Tf32Guard::allowed(Tf32Work::convolutions)) {
    return std::optional<Tf32Guard>(std::in_place, Tf32Work::products, true);
  }
  return std::nullopt;
}

class GumbelSoftmaxFunction : public torch::autograd::Function<GumbelSoftmaxFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& latents,
                               const Tensor& weights, const Tensor& offsets, const Tensor& codebook,
                               const Tensor& temperature, const MaybeTensor& seed,
                               int64_t first_row, int64_t chunk) {
    const auto rounded = rounding(latents, seed);
    const auto indices = at::empty({latents.size(0)}, latents.options().dtype(at::kLong));
    auto entropy = at::zeros({}, latents.options());
    each_chunk(latents, weights, offsets, chunk,
               [&](const Tensor&, const Tensor& logits, int64_t first) {
                 const auto rows = softmax_rows(logits, {seed, first_row + first});
                 indices.slice(0, first, first + logits.size(0)).copy_(rows.indices);
                 entropy += rows.entropy.sum();
               });
    context->save_for_backward(
        {latents, weights, offsets, codebook, temperature, seed.value_or(Tensor())});
    context->saved_data["chunk"] = chunk;
    context->saved_data["first_row"] = first_row;
    context->set_materialize_grads(false);
    context->mark_non_differentiable({indices});
    return {indices, at::zeros_like(latents), entropy};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "gumbel_softmax: has no second derivative");
    const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
    const auto saved = context->get_saved_variables();
    const auto &latents = saved[0], &weights = saved[1], &offsets = saved[2], &codebook = saved[3],
               &temperature = saved[4];
    const auto given = [](const Tensor& tensor) {
      return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
    };
    const auto seed = given(saved[5]);
    const auto rounded = rounding(latents, seed);
    const int64_t first_row = context->saved_data["first_row"].toInt();
    const auto of_codes = gradients[1], of_entropy = gradients[2];
    auto of_latents = at::zeros_like(latents), of_weights = at::zeros_like(weights),
         of_offsets = at::zeros_like(offsets);
    const auto add = [&](const Tensor& part, const Tensor& logits, int64_t first) {
      const auto own = [&](const Tensor& all) { return all.slice(0, first, first + part.size(0)); };
      MaybeTensor pulls;
      if (of_codes.defined()) pulls = at::mm(own(of_codes), codebook.t());
      const auto of_logits = softmax_rows_backward(logits, {seed, first_row + first}, temperature,
                                                   pulls, given(of_entropy));
      own(of_latents).copy_(at::mm(of_logits, weights));
      of_weights.addmm_(of_logits.t(), part);
      of_offsets += of_logits.sum(0);
    };
    each_chunk(latents, weights, offsets, context->saved_data["chunk"].toInt(), add);
    return {of_latents, of_weights, of_offsets, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

GumbelSoftmax gumbel_softmax(const Tensor& latents, const Tensor& weights, const Tensor& offsets,
                             const Tensor& codebook, const Tensor& temperature,
                             const MaybeTensor& seed, std::optional<int64_t> chunk,
                             int64_t first_row) {
  TORCH_CHECK(temperature.numel() == 1 && temperature.device() == latents.device(),
              "gumbel_softmax: the temperature must be a scalar on ", latents.device(),
              ", but it is ", temperature.sizes(), " on ", temperature.device());
  if (seed) check_seed("gumbel_softmax", *seed, latents.device());
  const c10::impl::ExcludeDispatchKeyGuard no_casts(c10::autocast_dispatch_keyset);
  const auto results =
      GumbelSoftmaxFunction::apply(latents, weights, offsets, codebook.detach(), temperature, seed,
                                   first_row, chunk.value_or(rows_at_a_time(weights.size(0))));
  return {results[0], results[1], results[2]};
}

GumbelSoftmax gumbel_softmax_reference(const Tensor& latents, const Tensor& weights,
                                       const Tensor& offsets, const Tensor& codebook,
                                       const Tensor& temperature, const MaybeTensor& seed) {
  const auto logits = at::addmm(offsets, latents, weights.t());
  const auto noisy = with_noise(logits, {seed, 0});
  const auto mean = at::softmax(noisy / temperature, 1).matmul(codebook.detach());
  const auto entropy = -(at::softmax(logits, 1) * at::log_softmax(logits, 1)).sum();
  return {noisy.argmax(1), mean - mean.detach(), entropy};
}

}  // namespace nsvq
