#pragma once

#include "nsvq/ops/code_search/hopper/tile_layout.h"

namespace nsvq {

/// A code and its squared distance.
struct Nearest {
  double distance;
  int64_t code;  ///< -1: none
};

/// Squared distance in fp64 of fp32 values, term by term in their order and not fused: bit
/// for bit that of a CPU. Lanes read rows of their own, so a load of 16 bytes costs as much as one
/// of 4: by fours where rows are aligned to them.
__device__ inline double exact_distance(const float* latent, const float* code, int64_t dimension) {
  double sum = 0;
  const auto add = [&](float a, float b) {
    const double difference = __dsub_rn(a, b);
    sum = __dadd_rn(sum, __dmul_rn(difference, difference));
  };
  const int64_t in_fours = dimension % 4 == 0 ? dimension : 0;
#pragma unroll 4
  for (int64_t k = 0; k < in_fours; k += 4) {
    const float4 a = *reinterpret_cast<const float4*>(latent + k);
    const float4 b = *reinterpret_cast<const float4*>(code + k);
    add(a.x, b.x);
    add(a.y, b.y);
    add(a.z, b.z);
    add(a.w, b.w);
  }
#pragma unroll 8
  for (int64_t k = in_fours; k < dimension; ++k) add(latent[k], code[k]);
  return sum;
}

/// Whether `a` is the nearer code or, at equal distances, the one of lower index.
__device__ inline bool wins(const Nearest& a, const Nearest& b) {
  if (a.code < 0 || b.code < 0) return a.code >= 0;
  return a.distance < b.distance || (a.distance == b.distance && a.code < b.code);
}

}  // namespace nsvq
