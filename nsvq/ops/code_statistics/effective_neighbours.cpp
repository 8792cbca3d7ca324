#include "nsvq/ops/code_statistics/effective_neighbours.h"

#include <algorithm>
#include <vector>

#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

namespace {

/// Distances held at a time: 64 MiB with the weights beside them.
constexpr int64_t kDistancesAtATime = int64_t{1} << 23;

/// exp(entropy) of each row's softmax. Overwrites the logits.
torch::Tensor perplexities(torch::Tensor logits) {
  logits.sub_(logits.amax(1, /*keepdim=*/true));
  auto weights = logits.exp();
  const auto total = weights.sum(1);
  // With p = w / total and log p = logit - log total: -sum p log p = log total - sum w logit /
  // total.
  return (total.log() - weights.mul_(logits).sum(1) / total).exp();
}

}  // namespace

torch::Tensor effective_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                   double tau) {
  check_codes("effective_neighbours", latents, codebook);
  check_tau("effective_neighbours", tau);
  const torch::NoGradGuard no_grad;
  // The latents' own norms drop out of the softmax and only cost precision: left out.
  const auto code_norms = codebook.square().sum(1);
  const int64_t rows = std::max<int64_t>(1, kDistancesAtATime / codebook.size(0));
  std::vector<torch::Tensor> neighbours;
  for (const auto& piece : latents.split(rows)) {
    neighbours.push_back(
        perplexities(at::addmm(code_norms, piece, codebook.t(), -1 / tau, 2 / tau)));
  }
  return at::cat(neighbours);
}

}  // namespace nsvq
