// How far a score of the blocked search (blocked.h) may be off: shared by its kernels and by a test
// that needs no GPU.
//
// Latents and codes are centred and scaled by a power of two, to A = (z - m) scale and
// B = (c - m) scale, and rounded to A' = A + a and B' = B + b of 11 significant bits (TF32), or for
// small d not rounded at all (a = b = 0, products in fp32 by fused multiply-adds). Exact
// scores S_ij = |B_j|^2 - 2 A_i.B_j = D_ij - |A_i|^2 order the codes of a latent by distance. The
// search has s_ij = |B_j|^2 - 2 A'_i.B'_j in fp32. With u = 2^-24:
//
// - Rounding the inputs: |A.B - A'.B'| <= |a| |B'| + |A| |b|. |a| and |b| are measured, and
//   enlarged by u |A| and u |B| for the subtraction of the centre.
// - The product A'.B' of d terms, each of which is exact before it is added. A matrix unit adds
//   k >= 2 terms and its sum so far at once, aligned to the largest of them, and may cut off each,
//   and the result, below 24 bits: at most (k + 2) errors of 2^-23 |A'| |B'| a step, since no term
//   and no partial sum exceeds |A'| |B'|, so 2 d 2^-23 |A'| |B'| in all. Fused multiply-adds, in
//   any order and with any split of the sum, are off by less.
// - |B|^2, summed up by 32 lanes: (d / 32 + 10) u of it. The difference, and the comparison of s
//   with a limit: a few u of |B|^2 + 2 |A'| |B'|. Both are less than (2 d + 20) 2^-23 of these.
// - Values whose products or squares leave the normal range of fp32: the scale puts the largest
//   value at 2^13 or above (denormal ones at 2^-39), so absolute terms of 1e-16 for norms and 1e-27
//   for scores cover them. Nothing overflows: values are below 2^15.
// - The fp64 distances that decide are rounded too, by up to (d + 2) 2^-53 |A|^2 more than the
//   terms above have room for. Below, S is such a distance less |A|^2.
//
// So |s - S| <= E (score_error). If w is the nearest code, then for every code k
//   s_w - E_w <= S_w <= S_k <= s_k + E_k,
// and only codes with s_j <= min_k (s_k + E_k) + E_j have to be measured exactly.
#pragma once

#include <c10/macros/Macros.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace nsvq::blocked {

/// The sums of fp32 squares of a row stay within the constants below up to here.
constexpr int64_t kMostDimensions = 65536;

/// The nearest number of 11 significant bits. A product of such numbers is the same in TF32 and in
/// fp32, whether a GPU rounds or cuts off what it takes for TF32.
C10_HOST_DEVICE inline float rounded_to_tf32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000u) & ~0x1fffu;
  memcpy(&value, &bits, sizeof bits);
  return value;
}

/// Upper bounds of a row: `norm` of |X| and |X'|, `residual` of |X' - X|.
struct RowNorms {
  float norm, residual;
};

/// RowNorms from the sums of squares of fl(X) and of X' - fl(X).
C10_HOST_DEVICE inline RowNorms norms_of(float square, float error) {
  const float norm = sqrtf(square) * 1.001f + 1e-16f;
  const float residual = sqrtf(error) * 1.001f + norm * 0x1p-23f + 1e-16f;
  return {norm + residual, residual};
}

/// Relative error of a product of d terms and of the operations after it.
inline float product_error(int64_t dimension) {
  return 1.01f * static_cast<float>(2 * dimension + 20) * 0x1p-23f;
}

/// E as derived above; grows with each of its arguments.
C10_HOST_DEVICE inline float score_error(const RowNorms& latent, const RowNorms& code,
                                         float product_error) {
  const float inputs = latent.residual * code.norm + latent.norm * code.residual;
  const float sums = product_error * code.norm * (2 * latent.norm + code.norm);
  const float distances = product_error * 0x1p-31f * latent.norm * latent.norm;
  return 1.001f * (2 * inputs + sums + distances) + 1e-27f;
}

}  // namespace nsvq::blocked
