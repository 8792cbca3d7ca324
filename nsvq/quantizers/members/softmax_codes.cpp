#include "nsvq/quantizers/members/softmax_codes.h"

#include <vector>

#include "nsvq/ops/soft_assignment/gumbel_softmax.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"
#include "nsvq/ops/soft_assignment/softmax_rows.h"
#include "nsvq/quantizers/codebook.h"

namespace nsvq {

namespace {

using SharedTensors = std::vector<torch::Tensor>;

torch::Tensor chunk_logits(const torch::Tensor& rows, const SharedTensors& shared) {
  return at::addmm(shared[1], rows, shared[0].t());
}

}  // namespace

torch::Tensor global_step(const QuantizerStep& step, const torch::Tensor& latents) {
  if (step.step.defined()) return step.step.to(at::kDouble);
  return at::zeros({}, latents.options().dtype(at::kDouble));
}

SoftmaxCodes mean_codes(const torch::Tensor& latents, const CodeLogits& logits,
                        const torch::Tensor& codebook, const Softness& softness) {
  const auto results = by_row_chunks(
      latents, {logits.weights, logits.offsets, codebook}, rows_at_a_time(codebook.size(0)),
      [softness](const torch::Tensor& rows, int64_t first, const SharedTensors& shared) {
        const auto noisy =
            with_noise(chunk_logits(rows, shared), {softness.seed, softness.first_row + first});
        const auto weights = at::softmax(noisy / softness.temperature, 1);
        return RowResults{{weights.matmul(shared[2]), noisy.argmax(1)}, {}};
      });
  return {results.rows[0], results.rows[1], {}};
}

SoftmaxCodes winning_codes(const torch::Tensor& latents, const CodeLogits& logits,
                           const torch::Tensor& codebook, const Softness& softness) {
  const auto drawn =
      gumbel_softmax(latents, logits.weights, logits.offsets, codebook, softness.temperature,
                     softness.seed, std::nullopt, softness.first_row);
  return {codes_of(codebook, drawn.indices) + drawn.carrier, drawn.indices, drawn.entropy};
}

torch::Tensor largest_logits(const torch::Tensor& latents, const CodeLogits& logits) {
  const torch::NoGradGuard no_grad;
  const auto results = by_row_chunks(
      latents, {logits.weights, logits.offsets}, rows_at_a_time(logits.weights.size(0)),
      [](const torch::Tensor& rows, int64_t, const SharedTensors& shared) {
        return RowResults{{chunk_logits(rows, shared).argmax(1)}, {}};
      });
  return results.rows[0];
}

}  // namespace nsvq
