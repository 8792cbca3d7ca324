// Hopper's matrix instructions, bulk copies and barriers in shared memory (PTX, sm_90a).
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NSVQ_SM90A 1
#endif

namespace nsvq::sm90 {

#ifdef NSVQ_SM90A

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

/// Makes initialised barriers visible to the copy engine.
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Arrives at the barrier, which then waits for this many bytes.
__device__ inline void copies_begin(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

/// Copies bytes (a multiple of 16, both ends aligned to 16) and counts them at the barrier.
__device__ inline void bulk_copy(void* shared, const void* global, uint32_t bytes,
                                 uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// An operand in shared memory: rows of 128 bytes in groups of 8 (1,024 bytes, aligned to it), the
/// 16-byte pieces of row r permuted by xor with r % 8. `panel` is the distance in bytes between
/// neighbouring panels of 64 columns; only the transposed operand uses it.
__device__ inline uint64_t operand(uint32_t address, uint32_t panel = 16) {
  return static_cast<uint64_t>((address & 0x3FFFF) >> 4) |
         (static_cast<uint64_t>(panel >> 4) << 16) | (uint64_t{1024 >> 4} << 32) |
         (uint64_t{1} << 62);
}

__device__ inline void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void mma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kInFlight>
__device__ inline void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kInFlight) : "memory");
}

/// Keeps the compiler from moving uses of the registers across this point.
template <int kCount>
__device__ inline void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

#define NSVQ_OUT8(d, i)                                                                       \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define NSVQ_OUT32(d, i) \
  NSVQ_OUT8(d, i), NSVQ_OUT8(d, i + 8), NSVQ_OUT8(d, i + 16), NSVQ_OUT8(d, i + 24)
#define NSVQ_REGS_32                                                                   \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22," \
  "%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define NSVQ_REGS_64                                                                          \
  NSVQ_REGS_32                                                                                \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
  "%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NSVQ_REGS_128                                                                          \
  NSVQ_REGS_64                                                                                 \
  ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,"  \
  "%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,"     \
  "%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123," \
  "%124,%125,%126,%127"

#define NSVQ_MMA_SHARED(regs, columns, a, b, accumulate)                                           \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " accumulate ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns \
  "k16.f32.f16.f16 {" regs "}, " a ", " b ", p, 1, 1, 0, 0;\n}\n"
#define NSVQ_MMA_REGISTERS(regs, columns, a0, a1, a2, a3, b)                                     \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.f16.f16 {" regs "}, {" a0 ", " a1 ", " a2 \
  ", " a3 "}, " b ", 1, 1, 1, 1;\n"

/// sums [64, N] = (accumulate ? sums : 0) + A [64, 16] B [N, 16]^T, both in shared memory by rows.
__device__ inline void mma(float (&sums)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(NSVQ_MMA_SHARED(NSVQ_REGS_32, "64", "%32", "%33", "%34")
               : NSVQ_OUT32(sums, 0)
               : "l"(a), "l"(b), "r"(accumulate));
}
__device__ inline void mma(float (&sums)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(NSVQ_MMA_SHARED(NSVQ_REGS_64, "128", "%64", "%65", "%66")
               : NSVQ_OUT32(sums, 0), NSVQ_OUT32(sums, 32)
               : "l"(a), "l"(b), "r"(accumulate));
}

/// sums [64, N] += A [64, 16] B [16, N], A in registers, B in shared memory by its rows.
__device__ inline void mma_transposed(float (&sums)[32], const uint32_t* a, uint64_t b) {
  asm volatile(NSVQ_MMA_REGISTERS(NSVQ_REGS_32, "64", "%32", "%33", "%34", "%35", "%36")
               : NSVQ_OUT32(sums, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void mma_transposed(float (&sums)[64], const uint32_t* a, uint64_t b) {
  asm volatile(NSVQ_MMA_REGISTERS(NSVQ_REGS_64, "128", "%64", "%65", "%66", "%67", "%68")
               : NSVQ_OUT32(sums, 0), NSVQ_OUT32(sums, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void mma_transposed(float (&sums)[128], const uint32_t* a, uint64_t b) {
  asm volatile(NSVQ_MMA_REGISTERS(NSVQ_REGS_128, "256", "%128", "%129", "%130", "%131", "%132")
               : NSVQ_OUT32(sums, 0), NSVQ_OUT32(sums, 32), NSVQ_OUT32(sums, 64),
                 NSVQ_OUT32(sums, 96)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef NSVQ_MMA_SHARED
#undef NSVQ_MMA_REGISTERS
#undef NSVQ_REGS_32
#undef NSVQ_REGS_64
#undef NSVQ_REGS_128
#undef NSVQ_OUT32
#undef NSVQ_OUT8

#endif  // NSVQ_SM90A

}  // namespace nsvq::sm90
