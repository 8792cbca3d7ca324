#pragma once

#include <torch/types.h>

#include <optional>

namespace nsvq {

/// What noisy_choice gives for latents [N, d].
struct NoisyChoice {
  torch::Tensor indices;  ///< [N], of the largest noisy logit
  /// Zeros [N, d] with the gradient of sum_j p_ij c_j, p = softmax(noisy logits / temperature), for
  /// latents, weights and offsets: added to the codes of `indices` it is one-hot straight through.
  torch::Tensor carrier;
  torch::Tensor entropy;  ///< scalar, sum_i H(softmax(logits of i)), without noise or temperature
};

/// Codes c [K, d] by logits z_i . w_j + b_j and Gumbel noise of a seed (seeded_values.h; without it
/// there is none), without the N x K matrix: a chunk of rows at a time, in forward and again in
/// backward, which draws the same noise. Where there is noise, products may be rounded to TF32 if
/// convolutions may (Tf32 in precision.h): it hides what they are off. `temperature`: a positive
/// scalar. No gradient for the codes, and no second derivative.
/// `chunk`: rows at a time, for tests.
NoisyChoice noisy_choice(const torch::Tensor& latents, const torch::Tensor& weights,
                         const torch::Tensor& offsets, const torch::Tensor& codebook,
                         const torch::Tensor& temperature, const std::optional<torch::Tensor>& seed,
                         std::optional<int64_t> chunk = std::nullopt);

/// The same by plain tensor operations on the N x K matrix.
NoisyChoice noisy_choice_reference(const torch::Tensor& latents, const torch::Tensor& weights,
                                   const torch::Tensor& offsets, const torch::Tensor& codebook,
                                   const torch::Tensor& temperature,
                                   const std::optional<torch::Tensor>& seed);

}  // namespace nsvq
