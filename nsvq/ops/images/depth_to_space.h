#pragma once

#include <torch/types.h>

namespace nsvq {

/// [B, 4C, H, W] to [B, C, 2H, 2W] in DCR order: channel (dy * 2 + dx) * C + c becomes channel c at
/// offset (dy, dx), unlike pixel_shuffle. Channels-last stays channels-last; on a GPU that is one
/// pass, and other memory is made channels-last first.
torch::Tensor depth_to_space(const torch::Tensor& x);

/// The same of x + bias [4C] by channel, in x's type: for the output of a convolution that ran
/// without its bias. On a GPU in the same pass, and the bias's gradient in the pass back.
torch::Tensor depth_to_space(const torch::Tensor& x, const torch::Tensor& bias);

/// The way back, and so its gradient: [B, C, 2H, 2W] to [B, 4C, H, W].
torch::Tensor space_to_depth(const torch::Tensor& x);

}  // namespace nsvq
