#pragma once

#include <torch/types.h>

namespace nsvq {

/// Images [B, 3, H, W] as brightness and two differences of colours, orange against blue and green
/// against purple, and back. In photographs and drawn images the differences vary much less than
/// brightness, which makes networks learn them late; here they are enlarged by 3 and 8, to about
/// its range.
torch::Tensor to_opponent_colors(const torch::Tensor& images);
torch::Tensor from_opponent_colors(const torch::Tensor& channels);

}  // namespace nsvq
