// Tiles of latents for the second pass, made from the latents or from tiles of the first
// (tile_layout.h).
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"

namespace nsvq {

namespace {

using namespace packing;

/// The winners of a tile of latents, stored behind its bias.
template <int kPanels>
__device__ int32_t* winners_of(float* bias) {
  return reinterpret_cast<int32_t*>(bias + tile_rows(kPanels));
}

/// Squared distance of two rows, times scale^2.
template <int kPanels>
__device__ float scaled_distance(const Lane<kPanels>& a, const float* other, float scale,
                                 int64_t d) {
  Lane<kPanels> b;
  b.load(other, d);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 2 * kPanels; ++i) {
    const int column = i / 2 * kPanelColumns + 2 * (threadIdx.x % 32) + i % 2;
    const float difference = column < d ? (a.values[i] - b.values[i]) * scale : 0.0f;
    sum = fmaf(difference, difference, sum);
  }
  return warp_sum(sum);
}

/// The bias that turns a latent's score into the logarithm (base 2) of its weight times 2^15.
__device__ float weight_bias(const Unit& unit, float scaled_distance, float square,
                             float denominator) {
  return unit.rate * (scaled_distance - square) - log2f(denominator) + 15.0f;
}

template <int kPanels>
__global__ void __launch_bounds__(kThreads)
    pack_weighted_kernel(Matrix latents, Matrix codes, int64_t d, const float* centre_values,
                         const ValueRange* range, double tau, const int64_t* indices,
                         const float* denominators, uint8_t* tiles) {
  const Unit unit = unit_of(range, tau);
  Lane<kPanels> centre;
  centre.load(centre_values, d);
  pack_latent_rows<kPanels>(
      latents, d, centre, unit.scale, blockIdx.x, tiles,
      [&](int64_t latent, const Lane<kPanels>& values, const Row& row, float* bias, int r) {
        const int64_t winner = latent >= 0 ? indices[latent] : -1;
        const bool weighs = winner >= 0 && winner < codes.rows && row.finite;
        const float* code = codes.values + (weighs ? winner : 0) * d;
        const float distance = scaled_distance<kPanels>(values, code, unit.scale, d);
        if (threadIdx.x % 32 > 0) return;
        winners_of<kPanels>(bias)[r] = static_cast<int32_t>(winner);
        bias[r] = weighs ? weight_bias(unit, distance, row.square, denominators[latent]) : kNothing;
      });
}

template <int kPanels>
__global__ void __launch_bounds__(kThreads)
    weigh_kernel(int64_t count, const ValueRange* range, double tau, const Row* rows,
                 Results results, uint8_t* tiles) {
  const int64_t latent = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (latent >= count) return;
  const Unit unit = unit_of(range, tau);
  const float distance = results.distances[latent] * unit.scale * unit.scale;
  const bool weighs = results.indices[latent] >= 0 && isfinite(distance);
  const int64_t tile = latent / tile_rows(kPanels), r = latent % tile_rows(kPanels);
  auto* bias = reinterpret_cast<float*>(tiles + tile * tile_bytes(kPanels) + body_bytes(kPanels));
  winners_of<kPanels>(bias)[r] = static_cast<int32_t>(results.indices[latent]);
  if (!weighs) return;
  bias[r] = weight_bias(unit, distance, rows[latent].square, results.denominators[latent]);
}

}  // namespace

void pack_grad_tiles(Matrix latents, Matrix codes, int64_t dimension, const float* centre,
                     const ValueRange* range, double tau, const int64_t* indices,
                     const float* denominators, uint8_t* tiles, cudaStream_t stream) {
  for_panels(dimension, [&](auto panels) {
    pack_weighted_kernel<panels><<<latent_blocks_for(latents), kThreads, 0, stream>>>(
        latents, codes, dimension, centre, range, tau, indices, denominators, tiles);
  });
}

void weight_latent_tiles(int64_t count, int64_t dimension, const ValueRange* range, double tau,
                         const Row* rows, Results results, uint8_t* tiles, cudaStream_t stream) {
  for_panels(dimension, [&](auto panels) {
    const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
    weigh_kernel<panels><<<blocks, kThreads, 0, stream>>>(count, range, tau, rows, results, tiles);
  });
}

}  // namespace nsvq
