#pragma once

#include "nsvq/ops/code_search/exact_scan.h"

namespace nsvq {

/// Squared distance in fp64 of fp32 values, term by term in their order and not fused: bit
/// for bit that of a CPU.
__device__ inline double exact_distance(const float* latent, const float* code, int64_t dimension) {
  double sum = 0;
#pragma unroll 8
  for (int64_t k = 0; k < dimension; ++k) {
    const double difference = __dsub_rn(latent[k], code[k]);
    sum = __dadd_rn(sum, __dmul_rn(difference, difference));
  }
  return sum;
}

/// The nearer code wins or, at equal distances, the one of lower index.
__device__ inline bool wins(const Nearest& a, const Nearest& b) {
  if (a.code < 0 || b.code < 0) return a.code >= 0;
  return a.distance < b.distance || (a.distance == b.distance && a.code < b.code);
}

}  // namespace nsvq
