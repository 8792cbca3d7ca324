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

/// A warp draws for a code.
__global__ void __launch_bounds__(kThreads)
    draw_kernel(const float* __restrict__ codes, int64_t count, const float* __restrict__ latents,
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

/// value(seed, place) for each place.
template <typename Value>
__global__ void __launch_bounds__(kThreads)
    values_kernel(const int64_t* __restrict__ seed, int64_t count, Value value,
                  float* __restrict__ values) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < count) values[i] = value(static_cast<uint64_t>(*seed), i);
}

struct SeededValue {
  int64_t draw;
  bool normal;
  __device__ float operator()(uint64_t seed, int64_t place) const {
    return normal ? normal_at(seed, draw, place) : uniform_at(seed, draw, place);
  }
};

struct GumbelValue {
  int64_t first;
  __device__ float operator()(uint64_t seed, int64_t place) const {
    return gumbels_at(seed, (first + place) / 4).at[(first + place) % 4];
  }
};

template <typename Value>
at::Tensor values_of(const at::Tensor& seed, int64_t count, Value value) {
  const c10::cuda::CUDAGuard guard(seed.device());
  auto values = at::empty({count}, seed.options().dtype(at::kFloat));
  if (count == 0) return values;
  const auto blocks = static_cast<unsigned>(divided(count, kThreads));
  values_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      seed.const_data_ptr<int64_t>(), count, value, values.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return values;
}

at::Tensor seeded_values_cuda(const at::Tensor& seed, int64_t draw, int64_t count, bool normal) {
  return values_of(seed, count, SeededValue{draw, normal});
}

at::Tensor gumbel_values_cuda(const at::Tensor& seed, int64_t first, int64_t count) {
  return values_of(seed, count, GumbelValue{first});
}

at::Tensor draw_similar_cuda(const at::Tensor& codes, const at::Tensor& latents,
                             const at::Tensor& seed) {
  const c10::cuda::CUDAGuard guard(codes.device());
  auto drawn = at::empty({codes.size(0)}, codes.options().dtype(at::kLong));
  if (codes.size(0) == 0) return drawn;
  const auto blocks = static_cast<unsigned>(divided(codes.size(0), kThreads / kWarp));
  draw_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      codes.const_data_ptr<float>(), codes.size(0), latents.const_data_ptr<float>(),
      latents.size(0), latents.size(1), seed.const_data_ptr<int64_t>(),
      drawn.mutable_data_ptr<int64_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return drawn;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("draw_similar", draw_similar_cuda);
  m.impl("seeded_values", seeded_values_cuda);
  m.impl("gumbel_values", gumbel_values_cuda);
}

}  // namespace nsvq
