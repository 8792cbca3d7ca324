// Tiles of codes and latents for the first pass (tile_layout.h).
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"

namespace nsvq {

namespace {

using namespace packing;

constexpr int kBatch = 4;  ///< codes that a warp loads at a time

/// Packs a tile of codes, by a block.
template <int kPanels>
__device__ void pack_code_tile(const Matrix& codes, int64_t d, const Lane<kPanels>& centre,
                               const Unit& unit, int64_t tile, uint8_t* tiles,
                               WidestBounds* widest) {
  constexpr int kRows = tile_rows(kPanels);
  __shared__ float norms[kWarps], residuals[kWarps], leasts[kWarps];
  const int warp = threadIdx.x / 32;
  uint8_t* body = tiles + tile * tile_bytes(kPanels);
  auto* bias = reinterpret_cast<float*>(body + body_bytes(kPanels));
  auto* header = reinterpret_cast<Header*>(bias + kRows);
  auto* code_norms = reinterpret_cast<uint16_t*>(header + 1);
  float norm = 0, residual = 0, least = 1e38f;
  for (int first = warp; first < kRows; first += kBatch * kWarps) {
    Lane<kPanels> values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int64_t code = tile * kRows + first + i * kWarps;
      values[i].load(codes.values + (code < codes.rows ? code : 0) * d, d);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int r = first + i * kWarps;
      const bool present = tile * kRows + r < codes.rows;
      const Row row = pack_row<kPanels>(values[i], centre, present, unit.scale, d, body, r);
      if (present) {
        norm = fmaxf(norm, row.norm);
        residual = fmaxf(residual, row.residual);
        least = fminf(least, row.norm);
      }
      if (threadIdx.x % 32 > 0) continue;
      bias[r] = present ? -unit.rate * row.square : kNothing;
      code_norms[r] = static_cast<uint16_t>((__float_as_uint(row.norm) + 0xffffu) >> 16);
    }
  }
  norms[warp] = norm;
  residuals[warp] = residual;
  leasts[warp] = least;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 0; i < kWarps; ++i) {
    norm = fmaxf(norm, norms[i]);
    residual = fmaxf(residual, residuals[i]);
    least = fminf(least, leasts[i]);
  }
  const float gamma = unit.rate * (24.1f * 0x1p-24f * norm * norm + 1e-30f);
  *header = {{norm, residual, gamma}, least};
  const float reach = reach_of(*header);
  // Bits of numbers above zero compare as the numbers do.
  atomicMax(reinterpret_cast<int*>(&widest->norm), __float_as_int(reach * norm));
  atomicMax(reinterpret_cast<int*>(&widest->residual), __float_as_int(reach * residual));
  atomicMax(reinterpret_cast<int*>(&widest->gamma), __float_as_int(reach * gamma));
  if (is_uneven(*header)) widest->uneven = 1;
}

/// The first `code_blocks` blocks pack codes, the rest latents, whose bias is written once their
/// weights are known (pack_grad_tiles.cu).
template <int kPanels>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(Matrix codes, Matrix latents, int64_t d, const float* centre_values,
                const ValueRange* range, double tau, unsigned code_blocks, uint8_t* code_tiles,
                uint8_t* latent_tiles, Row* rows, WidestBounds* widest) {
  const Unit unit = unit_of(range, tau);
  Lane<kPanels> centre;
  centre.load(centre_values, d);
  if (blockIdx.x < code_blocks) {
    pack_code_tile<kPanels>(codes, d, centre, unit, blockIdx.x, code_tiles, widest);
    return;
  }
  pack_latent_rows<kPanels>(
      latents, d, centre, unit.scale, blockIdx.x - code_blocks, latent_tiles,
      [&](int64_t latent, const Lane<kPanels>&, const Row& row, float* bias, int r) {
        if (threadIdx.x % 32 > 0) return;
        bias[r] = kNothing;
        if (latent >= 0) rows[latent] = row;
      });
}

unsigned code_blocks_for(const Matrix& codes, int panels) {
  return static_cast<unsigned>((codes.rows + 127) / 128 * (128 / tile_rows(panels)));
}

}  // namespace

void pack_search_tiles(Matrix codes, Matrix latents, int64_t dimension, const float* centre,
                       const ValueRange* range, double tau, uint8_t* code_tiles,
                       uint8_t* latent_tiles, Row* rows, WidestBounds* widest,
                       cudaStream_t stream) {
  for_panels(dimension, [&](auto panels) {
    const unsigned blocks = code_blocks_for(codes, panels);
    pack_kernel<panels><<<blocks + latent_blocks_for(latents), kThreads, 0, stream>>>(
        codes, latents, dimension, centre, range, tau, blocks, code_tiles, latent_tiles, rows,
        widest);
  });
}

}  // namespace nsvq
