#pragma once

#include <torch/types.h>

namespace nsvq {

/// Activations that are not centred, channels-last, for tests of norms.
inline torch::Tensor norm_images(int64_t n, int64_t c, int64_t h, int64_t w) {
  return (at::randn({n, c, h, w}) * 2 + 0.5).contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace nsvq
