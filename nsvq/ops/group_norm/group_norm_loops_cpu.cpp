#include "nsvq/ops/group_norm/group_norm_loops_cpu.h"

#include <algorithm>

#include "nsvq/ops/common/instruction_set_cpu.h"
#include "nsvq/ops/group_norm/group_norm_vectors_cpu.h"

// Functions that the variants share have to be inlined into each of them.
#define NSVQ_INLINED __attribute__((always_inline))

namespace nsvq::group_norm_cpu {

namespace {

template <typename Vector>
NSVQ_INLINE void block_moments(const Block& block, const float* x, float* means, float* squares) {
  std::fill_n(means, block.channels, 0.0f);
  std::fill_n(squares, block.channels, 0.0f);
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        // Relative to the first pixel: sums of large numbers would round away what
                        // they differ in.
                        Vector value, first;
                        load_some(x + i, count, value);
                        load_some(x + c, count, first);
                        add_some(value - first, count, means + c);
                      });
  for (int64_t c = 0; c < block.channels; ++c) {
    means[c] = x[c] + means[c] / static_cast<float>(block.rows);
  }
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        Vector value, mean;
                        load_some(x + i, count, value);
                        load_some(means + c, count, mean);
                        value -= mean;
                        add_some(value * value, count, squares + c);
                      });
}

template <typename Vector>
NSVQ_INLINE void load_centred(const float* x, const Affine& affine, int64_t c, int64_t count,
                              Vector& centred) {
  Vector mean;
  load_some(x, count, centred);
  load_some(affine.mean + c, count, mean);
  centred -= mean;
}

/// u: what goes into SiLU.
template <typename Vector>
NSVQ_INLINE void load_normalised(const float* x, const Affine& affine, int64_t c, int64_t count,
                                 Vector& u) {
  Vector scale, shift;
  load_centred(x, affine, c, count, u);
  load_some(affine.scale + c, count, scale);
  load_some(affine.shift + c, count, shift);
  u = u * scale + shift;
}

template <typename Vector>
NSVQ_INLINE void block_normalise(const Block& block, const float* x, const Affine& affine,
                                 bool silu, float* y) {
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        Vector u, s;
                        load_normalised(x + i, affine, c, count, u);
                        if (silu) {
                          sigmoid_of(u, s);
                          u *= s;
                        }
                        store_some(u, count, y + i);
                      });
}

template <typename Vector>
NSVQ_INLINE void block_through_silu(const Block& block, const float* x, const float* dy,
                                    const Affine& affine, float* du) {
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        Vector u, s, gradient;
                        load_normalised(x + i, affine, c, count, u);
                        sigmoid_of(u, s);
                        load_some(dy + i, count, gradient);
                        gradient *= s * (1.0f + u * (1.0f - s));
                        store_some(gradient, count, du + i);
                      });
}

template <typename Vector>
NSVQ_INLINE void block_add_sums(const Block& block, const float* x, const float* du,
                                const Affine& affine, float* sums, float* centred_sums) {
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        Vector gradient, centred;
                        load_some(du + i, count, gradient);
                        load_centred(x + i, affine, c, count, centred);
                        add_some(gradient, count, sums + c);
                        add_some(gradient * centred, count, centred_sums + c);
                      });
}

template <typename Vector>
NSVQ_INLINE void block_input_gradient(const Block& block, const float* x, const float* du,
                                      const Affine& affine, const Pull& pull, float* dx) {
  for_vectors<Vector>(block.rows, block.channels,
                      [&](int64_t c, int64_t i, auto count) NSVQ_INLINED {
                        Vector gradient, scale, centred, level, tilt;
                        load_some(du + i, count, gradient);
                        load_some(affine.scale + c, count, scale);
                        load_centred(x + i, affine, c, count, centred);
                        load_some(pull.level + c, count, level);
                        load_some(pull.tilt + c, count, tilt);
                        store_some(gradient * scale - level - centred * tilt, count, dx + i);
                      });
}

/// Conversion from bf16, the upper half of a float.
template <typename Vector>
struct Halves {
  typedef uint16_t Shorts __attribute__((vector_size(sizeof(Vector) / 2)));
  typedef uint32_t Words __attribute__((vector_size(sizeof(Vector))));
};

template <typename Vector>
NSVQ_INLINE void widen(const c10::BFloat16* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes<Vector> <= count; i += kLanes<Vector>) {
    typename Halves<Vector>::Shorts shorts;
    std::memcpy(&shorts, from + i, sizeof(shorts));
    const auto words = __builtin_convertvector(shorts, typename Halves<Vector>::Words) << 16;
    std::memcpy(to + i, &words, sizeof(words));
  }
  for (; i < count; ++i) to[i] = from[i];
}

template <typename Vector>
NSVQ_INLINE void narrow(const float* from, int64_t count, c10::BFloat16* to) {
  using Words = typename Halves<Vector>::Words;
  int64_t i = 0;
  for (; i + kLanes<Vector> <= count; i += kLanes<Vector>) {
    Words words;
    std::memcpy(&words, from + i, sizeof(words));
    const Words rounded = (words + 0x7fff + ((words >> 16) & 1)) >> 16;
    const Words nan = Words{} + 0x7fc0;
    const auto shorts = __builtin_convertvector((words << 1) > 0xff000000u ? nan : rounded,
                                                typename Halves<Vector>::Shorts);
    std::memcpy(to + i, &shorts, sizeof(shorts));
  }
  for (; i < count; ++i) to[i] = from[i];
}

/// The loops with a vector, compiled for the instruction set that `target` names.
#define NSVQ_LOOPS(name, Vector, target)                                                           \
  target void name##_moments(const Block& a, const float* b, float* c, float* d) {                 \
    block_moments<Vector>(a, b, c, d);                                                             \
  }                                                                                                \
  target void name##_normalise(const Block& a, const float* b, const Affine& c, bool d,            \
                               float* e) {                                                         \
    block_normalise<Vector>(a, b, c, d, e);                                                        \
  }                                                                                                \
  target void name##_through_silu(const Block& a, const float* b, const float* c, const Affine& d, \
                                  float* e) {                                                      \
    block_through_silu<Vector>(a, b, c, d, e);                                                     \
  }                                                                                                \
  target void name##_add_sums(const Block& a, const float* b, const float* c, const Affine& d,     \
                              float* e, float* f) {                                                \
    block_add_sums<Vector>(a, b, c, d, e, f);                                                      \
  }                                                                                                \
  target void name##_input_gradient(const Block& a, const float* b, const float* c,                \
                                    const Affine& d, const Pull& e, float* f) {                    \
    block_input_gradient<Vector>(a, b, c, d, e, f);                                                \
  }                                                                                                \
  target void name##_widen(const c10::BFloat16* a, int64_t b, float* c) {                          \
    widen<Vector>(a, b, c);                                                                        \
  }                                                                                                \
  target void name##_narrow(const float* a, int64_t b, c10::BFloat16* c) {                         \
    narrow<Vector>(a, b, c);                                                                       \
  }                                                                                                \
  constexpr Loops name{name##_moments,  name##_normalise,      name##_through_silu,                \
                       name##_add_sums, name##_input_gradient, name##_widen,                       \
                       name##_narrow};

NSVQ_LOOPS(basic, Vector4, )
#if defined(__x86_64__)
NSVQ_LOOPS(avx2, Vector8, NSVQ_AVX2)
NSVQ_LOOPS(avx512, Vector16, NSVQ_AVX512)
#endif

}  // namespace

const Loops& loops([[maybe_unused]] int64_t channels) {
#if defined(__x86_64__)
  static const Loops& widest = best_of(basic, avx2, avx512);
  static const Loops& narrower = best_of(basic, avx2, avx2);
  return channels % kLanes<Vector16> == 0 ? widest : narrower;
#else
  return basic;
#endif
}

}  // namespace nsvq::group_norm_cpu
