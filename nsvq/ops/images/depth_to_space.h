#pragma once

#include <torch/types.h>

namespace nsvq {

/// [B, 4C, H, W] to [B, C, 2H, 2W] in DCR order: channel (dy * 2 + dx) * C + c becomes channel c at
/// offset (dy, dx), unlike pixel_shuffle. Channels-last stays channels-last; on a GPU that is one
/// pass, and other memory is made channels-last first.
torch::Tensor depth_to_space(const torch::Tensor& x);

/// depth_to_space(x + bias), with bias [4C] by channel and the sum in x's type: for the output of a
/// convolution that ran without its bias. On a GPU the sum is formed in that one pass, and the
/// bias's gradient in the one of the backward pass.
torch::Tensor depth_to_space(const torch::Tensor& x, const torch::Tensor& bias);

/// The way back, and so its gradient: [B, C, 2H, 2W] to [B, 4C, H, W].
torch::Tensor space_to_depth(const torch::Tensor& x);

}  // namespace nsvq
