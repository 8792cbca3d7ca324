#pragma once

#include <torch/types.h>

#include <optional>

namespace nsvq {

/// The results of gumbel_softmax for latents [N, d].
struct GumbelSoftmax {
  torch::Tensor indices;  ///< [N], index of the largest noisy logit
  /// Zeros [N, d] with the gradient of sum_j p_ij c_j, p = softmax(noisy logits / temperature), for
  /// latents, weights and offsets: added to the codes of `indices` it is one-hot straight through.
  torch::Tensor carrier;
  torch::Tensor entropy;  ///< scalar, sum_i H(softmax(logits of i)), without noise or temperature
};

/// Hard Gumbel-softmax: codes c [K, d] by logits z_i . w_j + b_j and Gumbel noise of a seed
/// (seeded_random.h; no noise without it). There is no N x K matrix: forward and backward work on a
/// chunk of rows at a time, and backward draws the noise again. Where there is noise, products may
/// be rounded to TF32 if convolutions may (Tf32Guard in fp32.h): the noise is larger than the
/// rounding. `temperature` is a positive scalar. No gradient for the codes, no second derivative.
/// `first_row`: index of the first latent among those that share the seed's noise. `chunk`: rows at
/// a time, for tests.
GumbelSoftmax gumbel_softmax(const torch::Tensor& latents, const torch::Tensor& weights,
                             const torch::Tensor& offsets, const torch::Tensor& codebook,
                             const torch::Tensor& temperature,
                             const std::optional<torch::Tensor>& seed,
                             std::optional<int64_t> chunk = std::nullopt, int64_t first_row = 0);

/// gumbel_softmax by plain tensor operations on the N x K matrix.
GumbelSoftmax gumbel_softmax_reference(const torch::Tensor& latents, const torch::Tensor& weights,
                                       const torch::Tensor& offsets, const torch::Tensor& codebook,
                                       const torch::Tensor& temperature,
                                       const std::optional<torch::Tensor>& seed);

}  // namespace nsvq
