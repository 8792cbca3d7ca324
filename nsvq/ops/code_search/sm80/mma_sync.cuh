// Matrix instructions, asynchronous copies and barriers in shared memory of compute capability 8.0
// and up (PTX).
#pragma once

#include <cstdint>

namespace nsvq::sm80 {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
}

__device__ inline bool barrier_passed(uint64_t* barrier, uint32_t parity) {
  uint32_t passed;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared.b64 done, [%1], %2;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 done, [%1], %2;\n"
#endif
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(passed)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return passed != 0;
}

__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  while (!barrier_passed(barrier, parity)) {
#if __CUDA_ARCH__ < 900
    __nanosleep(20);
#endif
  }
}

/// Copies 16 bytes to shared memory, past the L1 cache.
__device__ inline void copy_piece(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(global)
               : "memory");
}

/// Arrives at the barrier once all copies of this thread have ended.
__device__ inline void arrive_after_copies(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Four matrices of 8 rows of 16 bytes.
__device__ inline void load_matrices(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(uint32_t (&to)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

/// sums[0..3] += A [16, 16] B [16, 8], both fp16.
__device__ inline void mma(float* sums, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace nsvq::sm80
