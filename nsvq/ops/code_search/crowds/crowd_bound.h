// How far a score of latents in crowds (crowds.h) may be off: shared by its kernels and by a test
// that needs no GPU.
//
// X = (z - m) scale and Y = (c - m) scale, m a code and scale a power of two common to all, are
// formed in fp32 (off by 2^-24 of each value) and rounded to fp16 after another power of two of
// their row, which puts the row's largest value between 2^13 and 2^14: x and y are the errors of
// both steps. The score 2 X.Y - |Y|^2 = |X|^2 - |X - Y|^2 orders codes by distance.
//
// - Rounding: |X.Y - X'.Y'| <= |x| |Y| + |X'| |y|. Errors of fp16 are measured.
// - The product on the tensor cores: kappa |X'| |Y'|, kappa = (20 d / 16 + 4) 2^-23, as for the
//   first pass (tile_layout.h). The row's powers of two are taken out exactly, but for products
//   below the range of fp32: then both rows are below 2^-60, and 1e-30 covers them.
// - |Y|^2, summed up by 32 lanes, and the last rounding: 24 2^-24 |Y|^2, as there.
// - The fp64 distances that decide, of a code and of the centre, whose score counts as 0:
//   2 (d + 2) 2^-53 |X|^2, less than kappa 2^-29 |X|^2.
// In all |error| <= 2 (|x| + kappa |X|) |Y| + 2 |X| |y| + 24 2^-24 |Y|^2 + kappa 2^-29 |X|^2 +
// 1e-30, norms being upper bounds of rows before and after rounding.
#pragma once

#include <c10/macros/Macros.h>

#include <cmath>

namespace nsvq::crowds {

/// A row of differences: |Y|^2, upper bounds of |Y| and |y|, and the factor from its fp16 values to
/// the common scale.
struct alignas(16) Difference {
  float square, norm, error, unit;
};

/// The exponent of the power of two of a row whose largest value is `top`.
C10_HOST_DEVICE inline int exponent_for(float top) {
  if (!(top > 0)) return 0;
  const int exponent = 13 - ilogbf(top);
  return exponent < -20 ? -20 : exponent > 100 ? 100 : exponent;
}

/// The Difference of a row, from the sums of squares of its fp32 differences and of what fp16 lost
/// of them. 1e-15 and 1e-17 stand for what is lost where squares are below the range of fp32.
C10_HOST_DEVICE inline Difference difference_of(float square, float lost, float unit) {
  const float length = sqrtf(square) * 1.0001f + 1e-15f;
  const float error = sqrtf(lost) * 1.0001f + 0x1p-23f * length + 1e-17f;
  return {square, length + error, error, unit};
}

/// The Difference of a row whose differences overflow fp32, as those of no row do whose distances
/// fp32 holds: its error makes every code a hit, and the square of it covers that of |Y|^2.
C10_HOST_DEVICE inline Difference unknown_difference() { return {0, 1e15f, 1e15f, 1}; }

/// A latent's coefficients in the bound, slightly enlarged for the rounding of the bound itself.
struct Slopes {
  float norm, error, of_distances;
};
C10_HOST_DEVICE inline Slopes slopes_of(const Difference& latent, float kappa) {
  return {2.002f * (latent.error + kappa * latent.norm), 2.002f * latent.norm,
          0x1.01p-29f * kappa * latent.norm * latent.norm};
}

C10_HOST_DEVICE inline float score_error(const Slopes& latent, const Difference& code) {
  const float squares = 24.5f * 0x1p-24f * code.norm * code.norm + 1e-30f;
  return latent.norm * code.norm + (latent.error * code.error + (squares + latent.of_distances));
}

}  // namespace nsvq::crowds
