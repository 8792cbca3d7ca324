#include "nsvq/quantizers/soft_codes.h"

#include <utility>
#include <vector>

#include "nsvq/core/random.h"
#include "nsvq/ops/row_chunks.h"
#include "nsvq/quantizers/random_draws.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

using SharedTensors = std::vector<torch::Tensor>;

torch::Tensor chunk_logits(const torch::Tensor& rows, const SharedTensors& shared) {
  return at::addmm(shared[1], rows, shared[0].t());
}

/// Logits with the noise of the chunk that begins at row `first`.
torch::Tensor noisy_logits(const torch::Tensor& rows, int64_t first, const SharedTensors& shared,
                           const std::optional<uint64_t>& seed) {
  const auto logits = chunk_logits(rows, shared);
  if (!seed) return logits;
  return logits + gumbel_noise_like(logits, combine_seeds({*seed, static_cast<uint64_t>(first)}));
}

SoftCodes chunked_codes(const torch::Tensor& latents, const CodeLogits& logits,
                        const torch::Tensor& codebook, RowFunction function) {
  const auto results = by_row_chunks(latents, {logits.weights, logits.offsets, codebook},
                                     rows_at_a_time(codebook.size(0)), std::move(function));
  return {results.rows[0], results.rows[1]};
}

}  // namespace

SoftCodes mean_codes(const torch::Tensor& latents, const CodeLogits& logits,
                     const torch::Tensor& codebook, const Softness& softness) {
  return chunked_codes(
      latents, logits, codebook,
      [softness](const torch::Tensor& rows, int64_t first, const SharedTensors& shared) {
        const auto noisy = noisy_logits(rows, first, shared, softness.seed);
        const auto weights = at::softmax(noisy / softness.temperature, 1);
        return RowResults{{weights.matmul(shared[2]), noisy.argmax(1)}, {}};
      });
}

SoftCodes winning_codes(const torch::Tensor& latents, const CodeLogits& logits,
                        const torch::Tensor& codebook, const Softness& softness) {
  return chunked_codes(
      latents, logits, codebook,
      [softness](const torch::Tensor& rows, int64_t first, const SharedTensors& shared) {
        const auto noisy = noisy_logits(rows, first, shared, softness.seed);
        const auto indices = noisy.argmax(1);
        auto codes = at::embedding(shared[2], indices);
        if (at::GradMode::is_enabled()) {
          const auto mean = at::softmax(noisy / softness.temperature, 1).matmul(shared[2].detach());
          codes = codes + (mean - mean.detach());
        }
        return RowResults{{codes, indices}, {}};
      });
}

torch::Tensor largest_logits(const torch::Tensor& latents, const CodeLogits& logits) {
  const torch::NoGradGuard no_grad;
  require_latents_finite(latents);
  const auto results = by_row_chunks(
      latents, {logits.weights, logits.offsets}, rows_at_a_time(logits.weights.size(0)),
      [](const torch::Tensor& rows, int64_t, const SharedTensors& shared) {
        return RowResults{{chunk_logits(rows, shared).argmax(1)}, {}};
      });
  return results.rows[0];
}

}  // namespace nsvq
