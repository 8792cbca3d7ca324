#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// Images [B, C, H, W] as images of side x side pixels, by the formula of
/// torch.nn.functional.interpolate(mode="bilinear", antialias=True): what is made smaller is
/// averaged over the pixels that it covers. By products with two matrices, whose gradients are
/// summed in the same order every time, which those of PyTorch's operator on a GPU are not.
torch::Tensor resized(const torch::Tensor& images, int64_t side);

}  // namespace nsvq
