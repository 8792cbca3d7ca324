// Weights and grads of the NS loss from blocks of products (blocked.h).
#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/blocked/blocked.cuh"

namespace nsvq::blocked {

namespace {

/// Computes each winner's score again, |B|^2 - 2 A'.B', which products are compared with; by a
/// warp.
__global__ void __launch_bounds__(kThreads)
    anchor_kernel(const __grid_constant__ Block block, const int64_t* indices,
                  const float* denominators, Anchor* anchors) {
  const int64_t latent = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32;
  if (latent >= block.given_latents.rows) return;
  const int64_t winner = indices[latent], d = block.frame.dimension;
  const bool weighs =
      winner >= 0 && winner < block.given_codes.rows && block.latents.norms[latent].norm >= 0;
  const float scale = block.frame.unit->scale;
  float score = 0;
  if (weighs) {
    const float* code = block.given_codes.values + winner * d;
    const float* own = block.latents.values + latent * block.latents.stride;
    for (int64_t k = lane(); k < d; k += 32) {
      const float b = placed(code[k], block.frame.centre[k], scale);
      score += fmaf(b, b, -2 * own[k] * (block.frame.rounds ? rounded_to_tf32(b) : b));
    }
  }
  score = warp_sum(score);
  if (lane() > 0) return;
  anchors[latent] = {score, weighs ? log2f(denominators[latent]) : 0.0f, weighs ? winner : -1};
}

/// Turns products into weights, four per thread.
__global__ void __launch_bounds__(kThreads)
    weigh_kernel(const __grid_constant__ Block block, const Anchor* anchors) {
  const int64_t i = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * 4;
  if (i >= block.count * block.codes.padded) return;
  const auto padded = static_cast<uint32_t>(block.codes.padded);
  const uint32_t row = static_cast<uint32_t>(i) / padded, place = static_cast<uint32_t>(i) % padded;
  const Anchor anchor = anchors[block.first_latent + row];
  const float rate = block.frame.unit->rate;
  float4 products = *reinterpret_cast<const float4*>(block.products + i);
  const float4 squares = *reinterpret_cast<const float4*>(block.codes.squares + place);
  const auto weight = [&](float product, float square, int64_t code) {
    if (anchor.winner < 0 || anchor.winner == code) return 0.0f;
    // Only rounding makes a code seem nearer than the winner.
    const float nearness = fminf((anchor.score - score_of(product, square)) * rate, 0.0f);
    const float exact = exp2f(nearness - anchor.log2sum);
    return block.frame.rounds ? rounded_to_tf32(exact) : exact;
  };
  const int64_t code = block.first_code + place;
  products.x = weight(products.x, squares.x, code);
  products.y = weight(products.y, squares.y, code + 1);
  products.z = weight(products.z, squares.z, code + 2);
  products.w = weight(products.w, squares.w, code + 3);
  *reinterpret_cast<float4*>(block.products + i) = products;
}

/// Writes sum_i w_ij (c_j - z_i), both centred; column d of the sums holds sum_i w_ij.
__global__ void __launch_bounds__(kThreads)
    codebook_grad_kernel(const __grid_constant__ Block block, const float* sums, int64_t count,
                         float* grads) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x, d = block.frame.dimension;
  if (i >= count) return;
  const int64_t code = i / d, k = i % d, at = block.first_code * d + i;
  const Unit unit = *block.frame.unit;
  const float* row = sums + code * block.latents.stride;
  const float value = placed(block.given_codes.values[at], block.frame.centre[k], unit.scale);
  grads[at] = unit.finite ? fmaf(row[d], value, -row[k]) / unit.scale : 0.0f;
}

unsigned blocks_for(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace

void anchor_latents(const Block& block, const int64_t* indices, const float* denominators,
                    Anchor* anchors, cudaStream_t stream) {
  anchor_kernel<<<blocks_for(block.given_latents.rows, kWarps), kThreads, 0, stream>>>(
      block, indices, denominators, anchors);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void weigh_block(const Block& block, const Anchor* anchors, cudaStream_t stream) {
  const int64_t count = block.count * block.codes.padded;
  weigh_kernel<<<blocks_for(count, 4 * kThreads), kThreads, 0, stream>>>(block, anchors);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void finish_codebook_grad(const Block& block, const float* sums, float* grads,
                          cudaStream_t stream) {
  const int64_t codes = std::min(block.codes.padded, block.given_codes.rows - block.first_code);
  const int64_t count = codes * block.frame.dimension;
  codebook_grad_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(block, sums, count,
                                                                             grads);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq::blocked
