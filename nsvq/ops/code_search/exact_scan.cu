#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/code_search/exact_scan.cuh"

namespace nsvq {

namespace {

using namespace scans;

constexpr int64_t kMostBlocks = 1024;

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

float rate_for(double tau) { return static_cast<float>(std::min(1.4426950408889634 / tau, 1e30)); }

}  // namespace

void scan_rest(const Scan& scan, double tau, const ValueRange* range, Results results,
               cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(std::min(scan.latents.rows, kMostBlocks));
  const size_t shared_bytes = kRows * scan.dimension * sizeof(float);
  rest_kernel<<<blocks, kThreads, shared_bytes, stream>>>(scan, tau > 0 ? rate_for(tau) : 0.0f,
                                                          range, results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace nsvq
