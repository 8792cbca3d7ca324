// Packing of rows into tiles (tile_layout.h), shared by the kernels that pack codes or latents.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "nsvq/ops/code_search/hopper/error_bounds.cuh"

namespace nsvq::packing {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kBlockRows = 16;  ///< latents per block

__device__ inline float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

/// The values of a row that one lane of the packing warp holds: two of each panel.
template <int kPanels>
struct Lane {
  float values[2 * kPanels];

  __device__ void load(const float* row, int64_t d) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      const int column = p * kPanelColumns + 2 * lane;
      if (d % 2 == 0) {
        const float2 pair =
            column < d ? __ldg(reinterpret_cast<const float2*>(row + column)) : float2{0, 0};
        values[2 * p] = pair.x;
        values[2 * p + 1] = pair.y;
      } else {
        values[2 * p] = column < d ? __ldg(row + column) : 0.0f;
        values[2 * p + 1] = column + 1 < d ? __ldg(row + column + 1) : 0.0f;
      }
    }
  }
  __device__ bool finite() const {
    bool all = true;
#pragma unroll
    for (const float value : values) all = all && isfinite(value);
    return __all_sync(~0u, all);
  }
};

/// Writes a row of a tile, centred, scaled and rounded; returns |A|^2 and the bounds of
/// tile_layout.h.
template <int kPanels>
__device__ Row pack_row(const Lane<kPanels>& row, const Lane<kPanels>& centre, bool present,
                        float scale, int64_t d, uint8_t* body, int r) {
  constexpr int kRows = tile_rows(kPanels);
  const int lane = threadIdx.x % 32;
  const bool finite = row.finite();
  float square = 0, error = 0;
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
    float v[2];
    __half h[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const bool used = present && finite && p * kPanelColumns + 2 * lane + k < d;
      v[k] = used ? (row.values[2 * p + k] - centre.values[2 * p + k]) * scale : 0.0f;
      // Centring can overflow; an error that large sends the row to the exact scan.
      const bool overflow = !(fabsf(v[k]) < 60000.0f);
      if (overflow) v[k] = 0;
      h[k] = __float2half_rn(v[k]);
      const float off = overflow ? 1e15f : v[k] - __half2float(h[k]);
      square = fmaf(v[k], v[k], square);
      error = fmaf(off, off, error);
    }
    const int piece = (lane / 4) ^ (r % 8);
    *reinterpret_cast<__half2*>(body + (p * kRows + r) * 128 + piece * 16 + lane % 4 * 4) =
        __halves2half2(h[0], h[1]);
  }
  square = warp_sum(square);
  const float length = sqrtf(square) * 1.0001f + 1e-15f;
  // Centring is off by 2^-24 of the length, the fp64 distances by 2^-25 (tile_layout.h). The sum of
  // length and residual bounds A as well as A rounded.
  const float residual = sqrtf(warp_sum(error)) * 1.0001f + 0x1p-23f * length + 0x1p-25f;
  return {square, length + residual, residual, finite};
}

/// Packs the latents of a block, kBlockRows of a tile, and calls visit(latent, its values, its row,
/// the tile's bias, the row's index in the tile) for each; latents past the last have the number
/// -1.
template <int kPanels, typename Visit>
__device__ void pack_latent_rows(const Matrix& latents, int64_t d, const Lane<kPanels>& centre,
                                 float scale, int64_t block, uint8_t* tiles, Visit visit) {
  constexpr int kRows = tile_rows(kPanels);
  const int64_t first = block * kBlockRows;
  uint8_t* body = tiles + first / kRows * tile_bytes(kPanels);
  auto* bias = reinterpret_cast<float*>(body + body_bytes(kPanels));
#pragma unroll
  for (int i = threadIdx.x / 32; i < kBlockRows; i += kWarps) {
    const int64_t latent = first + i;
    const bool present = latent < latents.rows;
    const auto r = static_cast<int>(latent % kRows);
    Lane<kPanels> values;
    values.load(latents.values + (present ? latent : 0) * d, d);
    const Row row = pack_row<kPanels>(values, centre, present, scale, d, body, r);
    visit(present ? latent : -1, values, row, bias, r);
  }
}

/// Calls launch(number of panels as a constant) for the dimension, and checks the launch.
template <typename Launch>
void for_panels(int64_t dimension, Launch launch) {
  const int panels = panels_for(dimension);
  if (panels == 1) launch(std::integral_constant<int, 1>());
  if (panels == 2) launch(std::integral_constant<int, 2>());
  if (panels == 4) launch(std::integral_constant<int, 4>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

inline unsigned latent_blocks_for(const Matrix& latents) {
  return static_cast<unsigned>((latents.rows + 255) / 256 * (256 / kBlockRows));
}

}  // namespace nsvq::packing
