#pragma once

#include <torch/types.h>

#include <optional>

namespace nsvq {

// Soft assignments of latents [N, d] to K codes, p_i = softmax of the logits of latent i, without
// the N x K matrix: forward and backward work on a chunk of rows at a time (row_chunks.h), some
// 2^25 numbers. Gradients are exact, for all tensors given. Time is a multiple of N K d, memory of
// 2^25 numbers.

struct SoftAssignment {
  torch::Tensor usage;    ///< [K], sum_i p_ij
  torch::Tensor entropy;  ///< scalar, sum_i H(p_i) in nats
};

/// Logits z_i . w_j + b_j with weights w [K, d] and offsets b [K]. `chunk`: rows at a time, for
/// tests.
SoftAssignment soft_assignment_of_logits(const torch::Tensor& latents, const torch::Tensor& weights,
                                         const torch::Tensor& offsets,
                                         std::optional<int64_t> chunk = std::nullopt);

/// Logits -|z_i - c_j|^2 / tau with codes c [K, d].
SoftAssignment soft_assignment(const torch::Tensor& latents, const torch::Tensor& codebook,
                               double tau, std::optional<int64_t> chunk = std::nullopt);

/// soft_assignment by plain tensor operations on the N x K matrix.
SoftAssignment soft_assignment_reference(const torch::Tensor& latents,
                                         const torch::Tensor& codebook, double tau);

/// The usage of `soft_assignment` as an operator of the dispatcher,
/// `torch.ops.nsvq.softmax_column_sums`, without gradients; half precision is widened to fp32.
torch::Tensor softmax_column_sums(const torch::Tensor& latents, const torch::Tensor& codebook,
                                  double tau);

}  // namespace nsvq
