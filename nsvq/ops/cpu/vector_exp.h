#pragma once

#include <cstring>

#include "nsvq/ops/cpu/code_panels.h"

namespace nsvq {

/// exp(x) for x <= 0 within 2 units in the last place; 0 below -87, where the result is not
/// normal. To be inlined into functions compiled for several processors.
__attribute__((always_inline)) inline Vector vector_exp(Vector x) {
  typedef int32_t Integers __attribute__((vector_size(sizeof(Vector))));
  const auto vanishes = x < -87.0f;
  x = vanishes ? Vector{} - 87.0f : x;
  // x = n log 2 + r with |r| <= log 2 / 2; adding and taking away 1.5 * 2^23 rounds to an integer.
  const Vector rounder = Vector{} + 12582912.0f;
  const Vector n = (x * 1.44269504f + rounder) - rounder;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = Vector{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const Integers power = (__builtin_convertvector(n, Integers) + 127) << 23;
  Vector scale;
  std::memcpy(&scale, &power, sizeof(scale));
  const Vector result = p * scale;
  return vanishes ? Vector{} : result;
}

}  // namespace nsvq
