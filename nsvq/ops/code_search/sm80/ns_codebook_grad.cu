// The gradient of the NS loss for the codebook by mma.sync, without its factor: sum_i p_ik (c_k -
// z_i) [K, d] over the latents whose nearest code is not k.
//
// A warp has 16 of a block's 128 codes as left operands in its registers and reads the tiles of
// latents from the block's ring. The product codes x latents gives scores, which become weights in
// the registers in which the next product, weights x latents, takes its left operand; its right
// operand is the same tile, read transposed. Every sum has one owner and one order, so results do
// not vary.
#include "nsvq/ops/code_search/hopper/grad_epilogue.cuh"
#include "nsvq/ops/code_search/hopper/pack_rows.cuh"
#include "nsvq/ops/code_search/sm80/launch.cuh"
#include "nsvq/ops/code_search/sm80/sm80_passes.h"
#include "nsvq/ops/code_search/sm80/tile_ring.cuh"

namespace nsvq::sm80 {

namespace {

constexpr int kWarpCodes = 16;
static_assert(kWarps * kWarpCodes == kBlockCodes);

/// Latents at a time: with wide sums, registers do not suffice for the scores of more.
constexpr int chunk_for(int panels) { return panels <= 2 ? 64 : 16; }

/// sums [16, 64 kPanels] += weights [16, kChunk] times kChunk rows of a tile in shared memory.
template <int kPanels, int kChunk>
__device__ void add_weighted(float (&sums)[kPanels * 32], const uint32_t (&weights)[kChunk / 4],
                             uint32_t latents) {
  constexpr int kPairs = 4 * kPanels, kStride = tile_rows(kPanels) * 128;  // of 16 columns
  const int lane = threadIdx.x % 32;
  uint32_t offsets[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    offsets[i] = piece_offset(0, 0, transposed_row(lane), 2 * i + transposed_piece(lane));
  }
#pragma unroll
  for (int k = 0; k < kChunk / 16; ++k) {
    const uint32_t* a = weights + 4 * k;
#pragma unroll
    for (int n = 0; n < kPairs; ++n) {
      uint32_t b[4];
      load_transposed(b, latents + k * 16 * 128 + n / 4 * kStride + offsets[n % 4]);
      mma(&sums[8 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
      mma(&sums[8 * n + 4], a[0], a[1], a[2], a[3], b[2], b[3]);
    }
  }
}

/// The second pass of a warp: its codes against the tiles of latents in the ring.
template <int kPanels>
__device__ void gather(const GradPass& pass, Ring<kPanels>& ring) {
  constexpr int kRows = tile_rows(kPanels), kChunk = chunk_for(kPanels);
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
  const int first_code =
      static_cast<int>(blockIdx.x) * kBlockCodes + static_cast<int>(threadIdx.x) / 32 * kWarpCodes;
  const Unit unit = unit_of(pass.range, pass.tau);
  const RightOffsets offsets;
  Left<kPanels> left[1];
  left[0].load(pass.codes, first_code);
  const uint8_t* tile_of_codes = pass.codes + int64_t{first_code / kRows} * tile_bytes(kPanels);
  const float* code_bias = part_of<kPanels>(tile_of_codes, first_code % kRows).bias;
  const float bias[2] = {code_bias[row], code_bias[row + 8]};
  float weighted[kPanels * 32], totals[2] = {0, 0};
#pragma unroll
  for (float& sum : weighted) sum = 0;
  while (const uint8_t* tile = ring.next()) {
    const auto* biases = reinterpret_cast<const float*>(tile + body_bytes(kPanels));
    const auto* winners = reinterpret_cast<const int32_t*>(biases + kRows);
#pragma unroll 1
    for (int first = 0; first < kRows; first += kChunk) {
      const uint32_t latents = shared_address(tile) + first * 128;
      float products[1][kChunk / 2];
      uint32_t weights[kChunk / 4];
      multiply<kPanels>(products, left, latents, offsets);
      sm90::drop_winners<kWarpCodes, kChunk>(products[0], winners + first, first_code,
                                             first_code + row);
      sm90::weigh<kChunk>(products[0], biases + first, bias, 2 * unit.rate, weights, totals);
      add_weighted<kPanels, kChunk>(weighted, weights, latents);
    }
    ring.release();
  }
  sm90::write_grads<kPanels>(pass, weighted, totals, unit.scale, first_code + row);
}

template <int kPanels>
__global__ void __launch_bounds__(kThreads, 1)
    codebook_grad_kernel(const __grid_constant__ GradPass pass, int size) {
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ Stages stages;
  if (threadIdx.x == 0) stages.init();
  __syncthreads();
  const int64_t first = pass.latent_tiles * blockIdx.y / gridDim.y;
  const int64_t last = pass.latent_tiles * (blockIdx.y + 1) / gridDim.y;
  Ring<kPanels> ring{shared,       size,  stages, pass.latents + first * tile_bytes(kPanels),
                     last - first, kWarps};
  ring.start();
  gather<kPanels>(pass, ring);
  ring.finish();
}

}  // namespace

void run_codebook_grad_pass(const GradPass& pass, int splits, int64_t shared_limit,
                            cudaStream_t stream) {
  packing::for_panels(pass.dimension, [&](auto panels) {
    constexpr int kPanels = panels;
    const dim3 grid(static_cast<unsigned>((pass.codebook.rows + kBlockCodes - 1) / kBlockCodes),
                    static_cast<unsigned>(splits));
    launch_with_ring(codebook_grad_kernel<kPanels>, pass, grid, kPanels, shared_limit, 0, stream);
  });
}

}  // namespace nsvq::sm80
