// Compiled with -ffp-contract=off (nsvq/ops/library.cmake).
#include "nsvq/ops/code_search/cpu/exact_distance_cpu.h"

namespace nsvq {

double exact_distance(const float* latent, const float* code, int64_t dimension) {
  double sum = 0;
  for (int64_t k = 0; k < dimension; ++k) {
    const double difference = static_cast<double>(latent[k]) - code[k];
    sum += difference * difference;
  }
  return sum;
}

}  // namespace nsvq
