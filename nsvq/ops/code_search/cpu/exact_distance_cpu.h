#pragma once

#include <cstdint>

namespace nsvq {

/// Squared distance in fp64 of fp32 values, term by term in their order and not fused, so that it
/// is equal on every machine. Among codes at equal distances the one of lowest index is the
/// nearest.
double exact_distance(const float* latent, const float* code, int64_t dimension);

}  // namespace nsvq
