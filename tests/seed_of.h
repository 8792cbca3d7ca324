#pragma once

#include <torch/types.h>

namespace nsvq {

/// A seed as nsvq/ops/random/seeded_random.h takes it.
inline torch::Tensor seed_of(int64_t value, c10::Device device = at::kCPU) {
  return at::scalar_tensor(value, at::kLong).to(device);
}

}  // namespace nsvq
