#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

// Search and NS loss in plain tensor operations: what the operators of code_search.h are tested
// against, and what quantizer.operators: plain runs. latents [N, d], codebook [K, d].

/// Squared Euclidean distances [N, K], differentiable.
torch::Tensor squared_distances(const torch::Tensor& latents, const torch::Tensor& codebook);

/// Index [N] of the nearest code of each latent, the lowest one on ties, by distances in the
/// precision of the inputs: in fp32 another code may win than the nearest one, where two are about
/// as near. Works through the latents in pieces, so that memory stays bounded at any N. Throws if a
/// latent or a code is not finite: NaN has no nearest code.
torch::Tensor nearest_codes_reference(const torch::Tensor& latents, const torch::Tensor& codebook);

/// The exact reference: indices and squared distances by fp64 differences of every pair, on a CPU,
/// the definition of what nearest_codes returns. Slow.
std::tuple<torch::Tensor, torch::Tensor> nearest_codes_fp64(const torch::Tensor& latents,
                                                            const torch::Tensor& codebook);

/// The non-stationary embedding loss of the paper:
///
///   1 / (N d) * sum_i sum_{j != q_i} p_ij |sg(z_i) - c_j|^2,   p_i = sg softmax_j(-|z_i - c_j|^2 /
///   tau)
///
/// The softmax runs over all codes; the winner q_i is left out of the sum and its mass is not given
/// to the others. indices [N] are the winners; the gradient reaches the codebook alone.
torch::Tensor ns_loss_reference(const torch::Tensor& latents, const torch::Tensor& codebook,
                                const torch::Tensor& indices, double tau);

}  // namespace nsvq
