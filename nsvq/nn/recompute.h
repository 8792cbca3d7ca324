#pragma once

#include <torch/types.h>

#include <functional>

namespace nsvq {

using NetworkPart = std::function<torch::Tensor(const torch::Tensor&)>;

/// part(x) with activation checkpointing: only x is saved, and the backward pass runs the part's
/// forward again. Results and gradients equal those without it.
torch::Tensor recomputed(NetworkPart part, const torch::Tensor& x);

}  // namespace nsvq
