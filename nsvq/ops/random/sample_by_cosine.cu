#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/random/philox.h"

namespace nsvq {

namespace {

constexpr int kThreads = 256, kWarp = 32;

/// Samples a latent for each code, a warp per code.
__global__ void __launch_bounds__(kThreads)
    sample_kernel(const float* __restrict__ codes, int64_t count, const float* __restrict__ latents,
                  int64_t n, int64_t d, const int64_t* __restrict__ seed,
                  int64_t* __restrict__ drawn) {
  const int64_t j = (blockIdx.x * int64_t{kThreads} + threadIdx.x) / kWarp;
  if (j >= count) return;
  const int lane = threadIdx.x % kWarp;
  const float* code = codes + j * d;
  Proposals proposals(static_cast<uint64_t>(*seed), j, n);
  int64_t last = 0;
  for (int i = 0; i < kMostProposals; ++i) {
    const Proposal proposal = proposals.next();
    last = proposal.latent;
    const float* latent = latents + last * d;
    float similarity = 0;
    for (int64_t k = lane; k < d; k += kWarp) similarity = fmaf(code[k], latent[k], similarity);
    for (int half = kWarp / 2; half > 0; half /= 2) {
      similarity += __shfl_xor_sync(~0u, similarity, half);
    }
    if (proposal.bar < expf(similarity - 1)) break;
  }
  if (lane == 0) drawn[j] = last;
}

at::Tensor sample_unit_rows_cuda(const at::Tensor& codes, const at::Tensor& latents,
                                 const at::Tensor& seed) {
  const c10::cuda::CUDAGuard guard(codes.device());
  auto drawn = at::empty({codes.size(0)}, codes.options().dtype(at::kLong));
  if (codes.size(0) == 0) return drawn;
  const auto blocks = static_cast<unsigned>(divided(codes.size(0), kThreads / kWarp));
  sample_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      codes.const_data_ptr<float>(), codes.size(0), latents.const_data_ptr<float>(),
      latents.size(0), latents.size(1), seed.const_data_ptr<int64_t>(),
      drawn.mutable_data_ptr<int64_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return drawn;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("sample_unit_rows", sample_unit_rows_cuda); }

}  // namespace nsvq
