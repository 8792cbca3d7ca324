#pragma once

#include <torch/types.h>

#include <cstdint>

namespace nsvq {

/// Times [B] of any type as [B, width] in fp64: cosines of the time at frequencies that fall from 1
/// towards 1/10,000, then sines of the same. The width is even. Runs without a host
/// synchronisation.
torch::Tensor time_embedding(const torch::Tensor& times, int64_t width);

}  // namespace nsvq
