#pragma once

#include <torch/types.h>

#include <optional>

namespace nsvq {

// Softmaxes of rows of logits [n, K], with and without Gumbel noise. The noise of a number depends
// on the seed (seeded_random.h; none without it) and on its index among all rows, of which the
// given rows begin at number `first`. Functions not said to have gradients are operators of the
// dispatcher.

struct Noise {
  std::optional<torch::Tensor> seed;
  int64_t first = 0;  ///< number of the first row
};

/// Logits plus noise; differentiable with respect to the logits.
torch::Tensor with_noise(const torch::Tensor& logits, const Noise& noise);

/// For each row [n]: the index of the largest of logits + noise, the first on ties and any where
/// one is NaN, and the entropy of softmax(logits) in nats.
struct SoftmaxRows {
  torch::Tensor indices, entropy;
};
SoftmaxRows softmax_rows(const torch::Tensor& logits, const Noise& noise);

/// The gradient for logits [n, K] of sum_ij p_ij pulls_ij + weight sum_i H_i, p = softmax((logits +
/// noise) / temperature) and H the entropies; temperature and weight are scalars. Either term may
/// be left out.
torch::Tensor softmax_rows_backward(const torch::Tensor& logits, const Noise& noise,
                                    const torch::Tensor& temperature,
                                    const std::optional<torch::Tensor>& pulls,
                                    const std::optional<torch::Tensor>& weight);

}  // namespace nsvq
