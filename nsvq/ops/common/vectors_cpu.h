#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstdint>
#include <cstring>

// Vectors in the compiler's own notation, so that one text serves every instruction set. Functions
// take them by reference and are inlined: how vectors are passed differs between instruction sets.
#define NSVQ_INLINE __attribute__((always_inline)) inline

namespace nsvq {

typedef float Vector4 __attribute__((vector_size(16)));
#if defined(__x86_64__)
typedef float Vector8 __attribute__((vector_size(32)));
typedef float Vector16 __attribute__((vector_size(64)));
#endif

template <typename Vector>
constexpr int64_t kLanes = sizeof(Vector) / sizeof(float);

/// A vector at any address of floats.
template <typename Vector>
struct __attribute__((packed, may_alias)) Unaligned {
  Vector value;
};

template <typename Vector>
NSVQ_INLINE void load(const float* from, Vector& to) {
  to = reinterpret_cast<const Unaligned<Vector>*>(from)->value;
}

template <typename Vector>
NSVQ_INLINE void store(const Vector& from, float* to) {
  reinterpret_cast<Unaligned<Vector>*>(to)->value = from;
}

/// a becomes the lesser or the greater of a and b in each lane. Written as a choice this is one
/// instruction on x86_64 but several on aarch64, whose own instruction differs for NaN.
template <typename Vector>
NSVQ_INLINE void lesser(Vector& a, const Vector& b) {
#if defined(__aarch64__)
  a = vminq_f32(a, b);
#else
  a = a < b ? a : b;
#endif
}

template <typename Vector>
NSVQ_INLINE void greater(Vector& a, const Vector& b) {
#if defined(__aarch64__)
  a = vmaxq_f32(a, b);
#else
  a = a > b ? a : b;
#endif
}

/// Whether any lane of a comparison is true.
template <typename Mask>
NSVQ_INLINE bool any_of(const Mask& mask) {
  int64_t halves[sizeof(Mask) / sizeof(int64_t)], all = 0;
  std::memcpy(halves, &mask, sizeof(Mask));
#pragma GCC unroll 8
  for (const int64_t half : halves) all |= half;
  return all != 0;
}

/// Exponents of 2 below this count as minus infinity: the result would not be a normal number.
constexpr float kLeastExponent = -126.0f;

/// weights = 2^x for x <= 0, within 2 units in the last place; 0 for x below kLeastExponent, which
/// x becomes then. Several vectors in step, since each waits for its own last result.
template <typename Vector, int64_t n>
NSVQ_INLINE void exp2_of(Vector (&x)[n], Vector (&weights)[n]) {
  using Mask = decltype(x[0] < x[0]);
  Mask vanishes[n], power[n];
  Vector r[n], square[n], cube[n];
  // x = m + r with |r| <= 1/2: adding 1.5 * 2^23 rounds to the integer m and leaves it in the low
  // bits.
  const Vector rounder = Vector{} + 12582912.0f;
#pragma GCC unroll 4
  for (int64_t v = 0; v < n; ++v) {
    vanishes[v] = x[v] < kLeastExponent;
    greater(x[v], Vector{} + kLeastExponent);
    const Vector rounded = x[v] + rounder;
    std::memcpy(&power[v], &rounded, sizeof(Vector));
    r[v] = x[v] - (rounded - rounder);
  }
#pragma GCC unroll 4
  for (int64_t v = 0; v < n; ++v) square[v] = r[v] * r[v];
#pragma GCC unroll 4
  for (int64_t v = 0; v < n; ++v) cube[v] = square[v] * r[v];
    // The polynomial with the least relative error, 2e-9, among those that begin with 1.
#pragma GCC unroll 4
  for (int64_t v = 0; v < n; ++v) {
    Vector high = r[v] * 9.618438601e-3f, low = r[v] * 6.931472030e-1f;
    high += square[v] * 1.339900355e-3f;
    low += square[v] * 2.402264790e-1f;
    high += cube[v] * 1.535325817e-4f;
    low += cube[v] * 5.550332163e-2f;
    low += cube[v] * high;
    weights[v] = 1.0f + low;
  }
#pragma GCC unroll 4
  for (int64_t v = 0; v < n; ++v) {
    power[v] = (power[v] + 127) << 23;
    Vector scale;
    std::memcpy(&scale, &power[v], sizeof(Vector));
    weights[v] = vanishes[v] ? Vector{} : weights[v] * scale;
  }
}

}  // namespace nsvq
