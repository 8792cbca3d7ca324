#pragma once

#include <torch/types.h>

namespace nsvq {

/// w2(silu(w1 x) * w3 x) of x [..., d], w1 and w3 [hidden, d] and w2 [d, hidden]. On a GPU all are
/// bf16. What w2 is applied to is not kept but made again in the backward pass, by the kernel that
/// makes the gradients of the other two products (nsvq/ops/transformer/swiglu.h).
torch::Tensor gated_mlp(const torch::Tensor& x, const torch::Tensor& w1, const torch::Tensor& w2,
                        const torch::Tensor& w3);

}  // namespace nsvq
