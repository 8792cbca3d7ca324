#pragma once

#include <torch/types.h>

#include <optional>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

// Codes chosen by a softmax over logits, without the N x K matrix: rows are processed a chunk at a
// time (nsvq/ops/soft_assignment/row_chunks.h, gumbel_softmax.h), in forward and again in backward,
// and noise is drawn anew from its seed.

/// Logits z_i . w_j + b_j of latents [N, d]; the codes' weights w [K, d] and offsets b [K].
struct CodeLogits {
  torch::Tensor weights, offsets;
};

/// The global step in fp64, on the latents' device.
torch::Tensor global_step(const QuantizerStep& step, const torch::Tensor& latents);

/// How a latent's weights of the codes, softmax((logits + noise) / temperature), come about.
struct Softness {
  torch::Tensor temperature;          ///< scalar
  std::optional<torch::Tensor> seed;  ///< of Gumbel noise; without it there is none
  int64_t first_row = 0;              ///< of the noise, that of the first latent
};

struct SoftmaxCodes {
  torch::Tensor codes;    ///< [N, d]
  torch::Tensor indices;  ///< [N], of the largest weight
  torch::Tensor entropy;  ///< scalar, sum_i H(softmax(logits of i)), of winning_codes alone
};

/// The weights' mean of the codes.
SoftmaxCodes mean_codes(const torch::Tensor& latents, const CodeLogits& logits,
                        const torch::Tensor& codebook, const Softness& softness);

/// The code of the largest weight, bit for bit. Its gradient goes to that code, and through the
/// weights as if it were their mean: one-hot straight through.
SoftmaxCodes winning_codes(const torch::Tensor& latents, const CodeLogits& logits,
                           const torch::Tensor& codebook, const Softness& softness);

/// Index [N] of the largest logit, without gradients; any where a latent is not finite.
torch::Tensor largest_logits(const torch::Tensor& latents, const CodeLogits& logits);

}  // namespace nsvq
