// The second pass between its two products: from scores to weights, and from weighted latents to
// the gradient.
#pragma once

#include <cuda_fp16.h>

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"

namespace nsvq::sm90 {

/// Clears the score of each latent with its winner. Few tiles have winners among the kCodes codes
/// from `first_code` on, and a vote tells.
template <int kCodes, int kRows>
__device__ void drop_winners(float (&scores)[kRows / 2], const int32_t* winners, int first_code,
                             int own_code) {
  const int lane = threadIdx.x % 32;
  bool any = false;
#pragma unroll
  for (int i = lane; i < kRows; i += 32)
    any |= static_cast<unsigned>(winners[i] - first_code) < kCodes;
  if (!__any_sync(~0u, any)) return;
#pragma unroll
  for (int i = 0; i < kRows / 2; i += 4) {
    const int2 pair = *reinterpret_cast<const int2*>(winners + 2 * i + lane % 4 * 2);
    if (pair.x == own_code) scores[i] = kNothing;
    if (pair.y == own_code) scores[i + 1] = kNothing;
    if (pair.x == own_code + 8) scores[i + 2] = kNothing;
    if (pair.y == own_code + 8) scores[i + 3] = kNothing;
  }
}

/// Turns products into weights times 2^15 in fp16, the left operand of the next product, and adds
/// them to `totals`.
template <int kRows>
__device__ void weigh(float (&products)[kRows / 2], const float* latent_bias,
                      const float (&bias)[2], float twice_rate, uint32_t (&weights)[kRows / 4],
                      float (&totals)[2]) {
  float sums[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < kRows / 2; i += 4) {
    const float2 own = *reinterpret_cast<const float2*>(latent_bias + 2 * i + threadIdx.x % 4 * 2);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float p[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float x =
            fmaf(products[i + 2 * r + k], twice_rate, bias[r]) + (k == 0 ? own.x : own.y);
        p[k] = power_of_two(fminf(x, 14.0f));
        sums[r] += p[k];
      }
      const __half2 pair = __floats2half2_rn(p[0], p[1]);
      weights[i / 2 + r] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
  totals[0] += sums[0];
  totals[1] += sums[1];
}

/// Writes total c - weighted, both without the centre, for the thread's two codes.
template <int kPanels>
__device__ void write_grads(const GradPass& pass, const float (&weighted)[kPanels * 32],
                            const float (&totals)[2], float scale, int64_t code) {
  const int64_t d = pass.dimension;
  float* out = pass.grads + blockIdx.y * pass.codebook.rows * d;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = quad_sum(totals[r]) * 0x1p-15f;
    const int64_t row = code + 8 * r;
    if (row >= pass.codebook.rows) continue;
#pragma unroll
    for (int i = 0; i < kPanels * 32; i += 4) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int64_t column = 2 * i + threadIdx.x % 4 * 2 + k;
        if (column >= d) continue;
        const float own = pass.codebook.values[row * d + column] - pass.centre[column];
        out[row * d + column] = fmaf(total, own, weighted[i + 2 * r + k] * (-0x1p-15f / scale));
      }
    }
  }
}

}  // namespace nsvq::sm90
