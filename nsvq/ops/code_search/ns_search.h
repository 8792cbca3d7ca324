#pragma once

#include <torch/types.h>

#include <tuple>

namespace nsvq {

// The operators that ns_quantize and ns_loss are made of. They have no gradients.

/// The results of nsvq::ns_search, all [N]: the nearest code's index and squared distance, the
/// latent's loss sum_{j != q} p_j |z - c_j|^2, and the denominator of its softmax relative to the
/// winner, sum_j exp((|z - c_q|^2 - |z - c_j|^2) / tau).
using NsSearched = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>;

/// The results of nsvq::ns_search_with_grad: those of nsvq::ns_search, and `grad` [K, d] fp32, that
/// of nsvq::ns_codebook_grad: sum_i p_ij (c_j - z_i) over the latents whose nearest code is not j.
/// Times 2 / (N d) it is the gradient of the NS loss for the codebook.
using NsSearchedWithGrad =
    std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>;

/// Calls nsvq::ns_search_with_grad below autograd, or nsvq::ns_search, which leaves `grad`
/// undefined.
NsSearchedWithGrad ns_search(const torch::Tensor& latents, const torch::Tensor& codebook,
                             double tau, bool with_grad);

/// nsvq::ns_search, then nsvq::ns_codebook_grad: nsvq::ns_search_with_grad where no kernel does
/// both at once.
NsSearchedWithGrad ns_search_then_grad(const torch::Tensor& latents, const torch::Tensor& codebook,
                                       double tau);

/// The NS loss: the sum of the latents' losses [N] over N d.
torch::Tensor ns_mean_loss(const torch::Tensor& losses, const torch::Tensor& latents);

/// The gradient of the NS loss for the codebook, from the loss's own gradient and `grad` of
/// ns_search. A new tensor: `grad` is saved, and another backward pass may read it.
torch::Tensor ns_loss_gradient(const torch::Tensor& loss_gradient, const torch::Tensor& grad,
                               const torch::Tensor& latents);

}  // namespace nsvq
