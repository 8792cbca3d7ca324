#pragma once

#include <torch/types.h>

#include <functional>

namespace nsvq {

using NetworkPart = std::function<torch::Tensor(const torch::Tensor&)>;

/// part(x), of whose activations none is kept: they are computed again when the gradient is. The
/// part's parameters get their gradients then; results and gradients are the same.
torch::Tensor recomputed(NetworkPart part, const torch::Tensor& x);

}  // namespace nsvq
