#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/brute_force_scan.cuh"

namespace nsvq {

namespace {

using namespace scans;

constexpr int64_t kMostBlocks = 4096, kBlocksForSome = 1024;

/// Parts [N, splits] of the nearest codes, and of the sums.
__global__ void __launch_bounds__(kThreads) nearest_kernel(const __grid_constant__ Scan scan) {
  extern __shared__ __align__(16) float latents[];
  __shared__ Nearest nearest[kRows];
  const int64_t count = scan.latents.rows, step = gridDim.x * int64_t{kRows};
  for (int64_t first = blockIdx.x * int64_t{kRows}; first < count; first += step) {
    const Group group{first, count, kRows};
    group.load(scan, latents);
    find_nearest(scan, latents, group.rows(), nearest);
    const auto r = static_cast<int>(threadIdx.x);
    if (r < group.rows()) scan.nearest[(first + r) * scan.splits + blockIdx.y] = nearest[r];
  }
}

__global__ void __launch_bounds__(kThreads)
    sums_kernel(const __grid_constant__ Scan scan, float rate, Results results) {
  extern __shared__ __align__(16) float latents[];
  __shared__ Sums sums[kRows];
  const int64_t count = scan.latents.rows, step = gridDim.x * int64_t{kRows};
  for (int64_t first = blockIdx.x * int64_t{kRows}; first < count; first += step) {
    const Group group{first, count, kRows};
    group.load(scan, latents);
    find_sums(scan, group, latents, rate, results, sums);
    const auto r = static_cast<int>(threadIdx.x);
    if (r < group.rows()) scan.sums[(first + r) * scan.splits + blockIdx.y] = sums[r];
  }
}

__global__ void finish_nearest(const __grid_constant__ Scan scan, const ValueRange* range,
                               Results results) {
  const int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (row >= scan.latents.rows) return;
  Nearest best{0, -1};
  for (int split = 0; split < scan.splits; ++split) {
    const Nearest other = scan.nearest[row * scan.splits + split];
    if (wins(other, best)) best = other;
  }
  write_nearest(best, range, results, row);
}

__global__ void finish_sums(const __grid_constant__ Scan scan, Results results) {
  const int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (row >= scan.latents.rows) return;
  Sums all{};
  for (int split = 0; split < scan.splits; ++split) {
    all.weights += scan.sums[row * scan.splits + split].weights;
    all.losses += scan.sums[row * scan.splits + split].losses;
  }
  write_sums(all, results, row);
}

/// Everything for the latents that scan.rows names, by one block each or more of them to a block;
/// as a rule there are none.
__global__ void __launch_bounds__(kThreads, 4)
    rest_kernel(const __grid_constant__ Scan scan, float rate, const ValueRange* range,
                Results results) {
  extern __shared__ __align__(16) float latents[];
  __shared__ Nearest nearest[kRows];
  __shared__ Sums sums[kRows];
  const int64_t count = scan.rows[0];
  const int64_t share = (count + gridDim.x - 1) / gridDim.x;
  const auto most = static_cast<int>(min(share, int64_t{kRows}));
  for (int64_t first = int64_t{blockIdx.x} * most; first < count;
       first += int64_t{gridDim.x} * most) {
    const Group group{first, count, most};
    const auto r = static_cast<int>(threadIdx.x);
    group.load(scan, latents);
    find_nearest(scan, latents, group.rows(), nearest);
    if (r < group.rows()) write_nearest(nearest[r], range, results, group.row(scan, r));
    if (!results.losses) continue;
    __syncthreads();
    find_sums(scan, group, latents, rate, results, sums);
    if (r < group.rows()) write_sums(sums[r], results, group.row(scan, r));
  }
}

unsigned blocks_for(int64_t count, int64_t each, int64_t most) {
  return static_cast<unsigned>(std::min((count + each - 1) / each, most));
}

dim3 grid_for(const Scan& scan) {
  return {blocks_for(scan.latents.rows, kRows, kMostBlocks), static_cast<unsigned>(scan.splits)};
}

size_t shared_bytes(const Scan& scan) { return kRows * scan.dimension * sizeof(float); }

float rate_for(double tau) { return static_cast<float>(std::min(1.4426950408889634 / tau, 1e30)); }

}  // namespace

int scan_splits(int64_t latents, int64_t codes, int processors) {
  const int64_t groups = (latents + kRows - 1) / kRows;
  const int64_t most = std::clamp<int64_t>(codes / (4 * kThreads), 1, 32);
  return static_cast<int>(std::clamp<int64_t>(8 * processors / groups, 1, most));
}

void scan_nearest(const Scan& scan, const ValueRange* range, Results results, cudaStream_t stream) {
  nearest_kernel<<<grid_for(scan), kThreads, shared_bytes(scan), stream>>>(scan);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const unsigned blocks = blocks_for(scan.latents.rows, kThreads, INT32_MAX);
  finish_nearest<<<blocks, kThreads, 0, stream>>>(scan, range, results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void scan_sums(const Scan& scan, double tau, Results results, cudaStream_t stream) {
  sums_kernel<<<grid_for(scan), kThreads, shared_bytes(scan), stream>>>(scan, rate_for(tau),
                                                                        results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const unsigned blocks = blocks_for(scan.latents.rows, kThreads, INT32_MAX);
  finish_sums<<<blocks, kThreads, 0, stream>>>(scan, results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void scan_rest(const Scan& scan, double tau, const ValueRange* range, Results results,
               cudaStream_t stream) {
  const unsigned blocks = blocks_for(scan.latents.rows, 1, kBlocksForSome);
  rest_kernel<<<blocks, kThreads, shared_bytes(scan), stream>>>(
      scan, tau > 0 ? rate_for(tau) : 0.0f, range, results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
