// The gradient of the NS loss for the codebook on Hopper, without its factor: sum_i p_ik (c_k -
// z_i) [K, d] over the latents whose nearest code is not k.
//
// A block holds 128 codes, 64 to a warpgroup, and streams the latents through a ring of tiles. The
// product codes x latents gives scores, which become weights in the registers in which the next
// product, weights x latents, takes its left operand; its right operand is the same tile, read
// transposed. Weights are at most 1/2 (the winner has at least as much) and go to fp16 times 2^15.
// Every sum has one owner and one order, so results do not vary.

#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/hopper/grad_epilogue.cuh"

namespace nsvq {

namespace {

constexpr int kStages = 4;

#ifdef NSVQ_SM90A

using namespace sm90;

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
    drop_winners<64, kRows>(products, reinterpret_cast<const int32_t*>(latent_bias + kRows),
                            group_code, group_code + row);
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

}  // namespace

int grad_splits(int64_t latent_tiles, int64_t codes, int processors) {
  const int64_t blocks = (codes + kBlockCodes - 1) / kBlockCodes;
  constexpr int64_t kLeast = 8;  // tiles that make a block worth launching
  const int64_t most = std::max<int64_t>(1, latent_tiles / kLeast);
  return static_cast<int>(std::clamp<int64_t>(processors / blocks, 1, most));
}

void run_codebook_grad_pass(const GradPass& pass, int splits, cudaStream_t stream) {
  const int panels = panels_for(pass.dimension);
  if (panels == 1) launch<1>(pass, splits, stream);
  if (panels == 2) launch<2>(pass, splits, stream);
  if (panels == 4) launch<4>(pass, splits, stream);
}

}  // namespace nsvq
