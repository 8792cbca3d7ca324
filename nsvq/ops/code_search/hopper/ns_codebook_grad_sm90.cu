// The gradient of the NS loss for the codebook on Hopper, without its factor: sum_i p_ik (c_k -
// z_i) [K, d] over the latents whose nearest code is not k.
//
// A block holds 128 codes, 64 to a warpgroup, and streams the latents through a ring of tiles. The
// product codes x latents gives scores, which become weights in the registers in which the next
// product, weights x latents, takes its left operand; its right operand is the same tile, read
// transposed. Weights are at most 1/2 (the winner has at least as much) and go to fp16 times 2^15.
// Every sum has one owner and one order, so results do not vary.

#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "nsvq/ops/code_search/hopper/tile_ring.cuh"

namespace nsvq {

namespace {

constexpr int kBlockCodes = 128;
constexpr int kStages = 4;

struct GradPass {
  const uint8_t* latents;
  const uint8_t* codes;
  Matrix codebook;
  int64_t dimension, latent_tiles;
  const float* centre;
  const ValueRange* range;
  double tau;
  float* grads;  ///< [splits, K, d]
};

#ifdef NSVQ_SM90A

using namespace sm90;

/// Clears the score of each latent with its winner. Few tiles have winners among the block's codes,
/// and a vote tells.
template <int kRows>
__device__ void drop_winners(float (&scores)[kRows / 2], const int32_t* winners, int group_code,
                             int own_code) {
  const int lane = threadIdx.x % 32;
  bool any = false;
#pragma unroll
  for (int i = lane; i < kRows; i += 32) any |= static_cast<unsigned>(winners[i] - group_code) < 64;
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

/// The second pass of a warpgroup: 64 codes against `count` tiles of latents.
template <int kPanels>
__device__ void gather(const GradPass& pass, Barriers<kStages>& barriers, const uint8_t* resident,
                       const uint8_t* ring, int64_t count) {
  constexpr int kRows = tile_rows(kPanels);
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32;
  const int row = threadIdx.x % 128 / 32 * 16 + lane / 4;
  const int group_code = blockIdx.x * kBlockCodes + group * 64;
  const uint8_t* tile_of_codes = resident + group * 64 / kRows * tile_bytes(kPanels);
  const uint32_t codes = shared_address(tile_of_codes) + group * 64 % kRows * 128;
  const Unit unit = unit_of(pass.range, pass.tau);
  barrier_wait(&barriers.resident, 0);
  const auto* code_bias = reinterpret_cast<const float*>(tile_of_codes + body_bytes(kPanels)) +
                          group * 64 % kRows + row;
  const float bias[2] = {code_bias[0], code_bias[8]};
  float products[kRows / 2], weighted[kPanels * 32], totals[2] = {0, 0};
  uint32_t weights[kRows / 4];
#pragma unroll
  for (int i = 0; i < kPanels * 32; ++i) weighted[i] = 0;
  pin(weighted);
  Place<kStages> place;
  const Turn turn(group);
  uint64_t* before = nullptr;
  turn.wait();
  for (int64_t t = 0; t < count; ++t, place.advance()) {
    const uint8_t* tile = ring + place.stage * tile_bytes(kPanels);
    barrier_wait(&barriers.full[place.stage], place.round);
    multiply<kPanels>(products, codes, shared_address(tile));
    mma_wait<1>();
    turn.pass(true);
    // The second product of the tile before has ended, and its biases were read before the turn: it
    // is free.
    if (lane == 0 && before) barrier_arrive(before);
    before = &barriers.empty[place.stage];
    mma_wait<0>();
    pin(products);
    const auto* latent_bias = reinterpret_cast<const float*>(tile + body_bytes(kPanels));
    drop_winners<kRows>(products, reinterpret_cast<const int32_t*>(latent_bias + kRows), group_code,
                        group_code + row);
    weigh<kRows>(products, latent_bias, bias, 2 * unit.rate, weights, totals);
    turn.wait();
    mma_fence();
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      mma_transposed(weighted, weights + 4 * k,
                     operand(shared_address(tile) + k * 2048, kRows * 128));
    }
    mma_commit();
  }
  turn.pass(false);
  mma_wait<0>();
  pin(weighted);
  write_grads<kPanels>(pass, weighted, totals, unit.scale, group_code + row);
}

#endif  // NSVQ_SM90A

template <int kPanels>
__global__ void __launch_bounds__(sm90::kThreads, 1)
    codebook_grad_kernel(const __grid_constant__ GradPass pass) {
#ifdef NSVQ_SM90A
  constexpr int kTiles = kBlockCodes / tile_rows(kPanels);
  extern __shared__ uint8_t shared[];
  __shared__ Barriers<kStages> barriers;
  uint8_t* resident = aligned(shared);
  uint8_t* ring = resident + kTiles * tile_bytes(kPanels);
  if (threadIdx.x == 0) barriers.init();
  __syncthreads();
  const int64_t first = pass.latent_tiles * blockIdx.y / gridDim.y;
  const int64_t last = pass.latent_tiles * (blockIdx.y + 1) / gridDim.y;
  if (threadIdx.x < kReaders) {
    take_registers();
    gather<kPanels>(pass, barriers, resident, ring, last - first);
  } else {
    give_registers();
    if (threadIdx.x > kReaders) return;
    constexpr uint32_t kBytes = kTiles * tile_bytes(kPanels);
    copies_begin(&barriers.resident, kBytes);
    bulk_copy(resident, pass.codes + static_cast<int64_t>(blockIdx.x) * kBytes, kBytes,
              &barriers.resident);
    fill(barriers, ring, pass.latents + first * tile_bytes(kPanels), last - first,
         tile_bytes(kPanels));
  }
#endif
}

template <int kPanels>
void launch(const GradPass& pass, int splits, cudaStream_t stream) {
  constexpr int kBytes = 1024 + (kBlockCodes / tile_rows(kPanels) + kStages) * tile_bytes(kPanels);
  const auto kernel = codebook_grad_kernel<kPanels>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const dim3 grid(static_cast<unsigned>((pass.codebook.rows + kBlockCodes - 1) / kBlockCodes),
                  static_cast<unsigned>(splits));
  kernel<<<grid, sm90::kThreads, kBytes, stream>>>(pass);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

int64_t tiles_of(int64_t latents, int64_t dimension) {
  const int64_t rows = tile_rows(panels_for(dimension));
  return (latents + rows - 1) / rows;
}

}  // namespace

int grad_splits(int64_t latents, int64_t codes, int64_t dimension, int processors) {
  const int64_t blocks = (codes + kBlockCodes - 1) / kBlockCodes;
  constexpr int64_t kLeast = 8;  // tiles that make a block worth launching
  const int64_t most = std::max<int64_t>(1, tiles_of(latents, dimension) / kLeast);
  return static_cast<int>(std::clamp<int64_t>(processors / blocks, 1, most));
}

void run_codebook_grad_pass(const uint8_t* latents, const uint8_t* codes, Matrix codebook,
                            int64_t latent_count, int64_t dimension, const float* centre,
                            const ValueRange* range, double tau, int splits, float* grads,
                            cudaStream_t stream) {
  const GradPass pass{latents, codes, codebook, dimension, tiles_of(latent_count, dimension),
                      centre,  range, tau,      grads};
  const int panels = panels_for(dimension);
  if (panels == 1) launch<1>(pass, splits, stream);
  if (panels == 2) launch<2>(pass, splits, stream);
  if (panels == 4) launch<4>(pass, splits, stream);
}

}  // namespace nsvq
