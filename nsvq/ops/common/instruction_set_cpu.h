#pragma once

#if defined(__x86_64__)

#include <ATen/Version.h>

namespace nsvq {

// Instruction sets that a function is compiled for.
#define NSVQ_AVX2 __attribute__((target("avx2,fma")))
#define NSVQ_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))

/// The variant for the processor at hand by ATen's own choice, so that ATEN_CPU_CAPABILITY
/// (default, avx2, avx512) in the environment decides for both.
template <typename Variant>
const Variant& best_of(const Variant& basic, const Variant& avx2, const Variant& avx512) {
  const auto capability = at::get_cpu_capability();
  if (capability.starts_with("AVX512")) return avx512;
  return capability == "AVX2" ? avx2 : basic;
}

}  // namespace nsvq

#endif
