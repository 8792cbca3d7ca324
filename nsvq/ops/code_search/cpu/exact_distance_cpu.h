#pragma once

#include <cstdint>

namespace nsvq {

/// Squared distance in fp64 of fp32 values, term by term in their order and not fused, so that it
/// is the same on every machine. Of codes with equal ones the lowest index is the nearest.
double exact_distance(const float* latent, const float* code, int64_t dimension);

}  // namespace nsvq
