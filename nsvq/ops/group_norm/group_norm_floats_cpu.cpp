#include "nsvq/ops/group_norm/group_norm_floats_cpu.h"

#include <c10/util/TypeCast.h>

#include "nsvq/ops/common/vectors_cpu.h"
#include "nsvq/ops/group_norm/group_norm_loops_cpu.h"

namespace nsvq::group_norm_cpu {

void convert(const c10::BFloat16* from, int64_t count, float* to) {
  loops(count).widen(from, count, to);
}

void convert(const float* from, int64_t count, c10::BFloat16* to) {
  loops(count).narrow(from, count, to);
}

// Not all x86_64 processors have vector instructions for fp16: there, one number at a time.

#if defined(__aarch64__)
typedef __fp16 Halves4 __attribute__((vector_size(8)));
#endif

void convert(const c10::Half* from, int64_t count, float* to) {
  int64_t i = 0;
#if defined(__aarch64__)
  for (; i + 4 <= count; i += 4) {
    Halves4 halves;
    std::memcpy(&halves, from + i, sizeof(halves));
    store(__builtin_convertvector(halves, Vector4), to + i);
  }
#endif
  for (; i < count; ++i) to[i] = from[i];
}

void convert(const float* from, int64_t count, c10::Half* to) {
  int64_t i = 0;
#if defined(__aarch64__)
  for (; i + 4 <= count; i += 4) {
    Vector4 floats;
    load(from + i, floats);
    const auto halves = __builtin_convertvector(floats, Halves4);
    std::memcpy(to + i, &halves, sizeof(halves));
  }
#endif
  for (; i < count; ++i) to[i] = c10::convert<c10::Half>(from[i]);
}

}  // namespace nsvq::group_norm_cpu
