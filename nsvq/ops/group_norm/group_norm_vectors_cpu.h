#pragma once

#include <type_traits>

#include "nsvq/ops/common/vectors_cpu.h"

namespace nsvq::group_norm_cpu {

/// Loads `count` numbers; the rest of the vector is 0.
template <typename Vector>
NSVQ_INLINE void load_some(const float* from, int64_t count, Vector& to) {
  if (count == kLanes<Vector>) return load(from, to);
  to = Vector{};
  std::memcpy(&to, from, count * sizeof(float));
}

template <typename Vector>
NSVQ_INLINE void store_some(const Vector& from, int64_t count, float* to) {
  if (count == kLanes<Vector>) return store(from, to);
  std::memcpy(to, &from, count * sizeof(float));
}

template <typename Vector>
NSVQ_INLINE void add_some(const Vector& value, int64_t count, float* to) {
  Vector sum;
  load_some(to, count, sum);
  sum += value;
  store_some(sum, count, to);
}

/// Calls body(channel, index, count) for the vectors of a block, in the order of memory. The count
/// of whole vectors is known when compiling, which turns copies into loads.
template <typename Vector, typename Body>
NSVQ_INLINE void for_vectors(int64_t rows, int64_t channels, const Body& body) {
  for (int64_t row = 0; row < rows * channels; row += channels) {
    int64_t c = 0;
    for (; c + kLanes<Vector> <= channels; c += kLanes<Vector>) {
      body(c, row + c, std::integral_constant<int64_t, kLanes<Vector>>{});
    }
    if (c < channels) body(c, row + c, channels - c);
  }
}

/// x becomes exp(x) within 2 units in the last place, for x within -87 and 87; x beyond counts as
/// the nearer of these. Unlike exp2_of it is as exact for large x.
template <typename Vector>
NSVQ_INLINE void bounded_exp(Vector& x) {
  using Integers = decltype(x < x);
  greater(x, Vector{} - 87.0f);
  lesser(x, Vector{} + 87.0f);
  // x = n log 2 + r with |r| <= log 2 / 2; adding 1.5 * 2^23 rounds to an integer, which the last
  // bits of the sum hold.
  const Vector rounder = Vector{} + 12582912.0f;
  const Vector sum = x * 1.44269504f + rounder;
  const Vector n = sum - rounder;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = Vector{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.0f);
  Integers power, bits;
  std::memcpy(&power, &sum, sizeof(power));
  std::memcpy(&bits, &p, sizeof(bits));
  bits += power << 23;  // the exponent of 1.5 * 2^23 is shifted out
  std::memcpy(&x, &bits, sizeof(x));
}

template <typename Vector>
NSVQ_INLINE void sigmoid_of(const Vector& u, Vector& s) {
  s = -u;
  bounded_exp(s);
  s = 1.0f / (1.0f + s);
}

}  // namespace nsvq::group_norm_cpu
