// Packs latents and codes for the products of blocked.h.
#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/blocked/blocked.cuh"

namespace nsvq::blocked {

namespace {

constexpr int64_t kMostBlocks = 1024;

__device__ bool row_is_finite(const float* row, int64_t d) {
  bool finite = true;
  for (int64_t k = lane(); k < d; k += 32) finite = finite && isfinite(row[k]);
  return __all_sync(~0u, finite);
}

__device__ void widen(Widest* widest, const Widest& other) {
  atomicMax(&widest->norm, other.norm);
  atomicMax(&widest->residual, other.residual);
}

/// Widens the bounds, within the block first: atomic operations on one address are done one after
/// the other.
__device__ void widen_together(Widest* widest, const RowNorms& of_warp) {
  __shared__ Widest of_block;
  if (threadIdx.x == 0) of_block = {0, 0};
  __syncthreads();
  if (lane() == 0) {
    widen(&of_block, {__float_as_uint(of_warp.norm), __float_as_uint(of_warp.residual)});
  }
  __syncthreads();
  if (threadIdx.x == 0) widen(widest, of_block);
}

/// Packs rows, a warp one row at a time.
__global__ void __launch_bounds__(kThreads)
    pack_kernel(Matrix source, const __grid_constant__ Frame frame,
                const __grid_constant__ Rows rows) {
  const int64_t d = frame.dimension, step = int64_t{gridDim.x} * kWarps;
  const bool codes = rows.squares != nullptr;
  const Unit unit = *frame.unit;
  RowNorms most{0, 0};
  for (int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / 32; row < rows.padded;
       row += step) {
    const bool present = row < source.rows;
    const float* values = source.values + (present ? row : 0) * d;
    const bool usable = present && unit.finite && row_is_finite(values, d);
    float square = 0, error = 0;
    for (int64_t k = lane(); k < rows.stride; k += 32) {
      const float exact = usable && k < d ? placed(values[k], frame.centre[k], unit.scale) : 0.0f;
      const float rounded = frame.rounds ? rounded_to_tf32(exact) : exact;
      square = fmaf(exact, exact, square);
      error = fmaf(rounded - exact, rounded - exact, error);
      rows.values[row * rows.stride + k] = !codes && k == d ? 1.0f : rounded;
    }
    square = warp_sum(square);
    const RowNorms norms = norms_of(square, warp_sum(error));
    most = {fmaxf(most.norm, norms.norm), fmaxf(most.residual, norms.residual)};
    if (lane() > 0) continue;
    rows.norms[row] = codes || usable ? norms : RowNorms{-1, 0};
    if (codes) rows.squares[row] = present ? square : kAbsent;
  }
  if (codes) widen_together(rows.widest, most);
}

__global__ void unit_kernel(const ValueRange* range, double tau, Unit* unit) {
  *unit = unit_of(range, tau);
}

}  // namespace

void write_unit(const ValueRange* range, double tau, Unit* unit, cudaStream_t stream) {
  unit_kernel<<<1, 1, 0, stream>>>(range, tau, unit);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void pack_rows(Matrix source, const Frame& frame, const Rows& rows, cudaStream_t stream) {
  const auto blocks = std::min((rows.padded + kWarps - 1) / kWarps, kMostBlocks);
  pack_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(source, frame, rows);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq::blocked
