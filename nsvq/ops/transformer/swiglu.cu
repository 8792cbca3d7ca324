// silu(a) * b and its gradients for bf16, eight numbers a thread.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <tuple>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/transformer/eights.cuh"
#include "nsvq/ops/transformer/swiglu.h"

namespace nsvq::transformer_cuda {

namespace {

using T = c10::BFloat16;

constexpr int kGateThreads = 256;

__device__ float share_of(float x) { return 1 / (1 + __expf(-x)); }

__device__ int64_t own_place() {
  return (static_cast<int64_t>(blockIdx.x) * kGateThreads + threadIdx.x) * kEight;
}

__global__ void __launch_bounds__(kGateThreads)
    swiglu_kernel(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ product,
                  int64_t count) {
  const int64_t place = own_place();
  if (place >= count) return;
  Eight x = load_eight(a + place);
  const Eight y = load_eight(b + place);
#pragma unroll
  for (int v = 0; v < kEight; ++v) x.at[v] *= share_of(x.at[v]) * y.at[v];
  store_eight(x, product + place);
}

/// `gradient` becomes the product.
__global__ void __launch_bounds__(kGateThreads)
    gradients_kernel(T* __restrict__ gradient, const T* __restrict__ a, const T* __restrict__ b,
                     T* __restrict__ of_a, T* __restrict__ of_b, int64_t count) {
  const int64_t place = own_place();
  if (place >= count) return;
  Eight g = load_eight(gradient + place), x = load_eight(a + place), y = load_eight(b + place);
#pragma unroll
  for (int v = 0; v < kEight; ++v) {
    const float share = share_of(x.at[v]), silu = x.at[v] * share, given = g.at[v];
    g.at[v] = silu * y.at[v];
    x.at[v] = given * y.at[v] * fmaf(silu, 1 - share, share);
    y.at[v] = given * silu;
  }
  store_eight(g, gradient + place);
  store_eight(x, of_a + place);
  store_eight(y, of_b + place);
}

void check_fits(const at::Tensor& x) {
  TORCH_CHECK(x.scalar_type() == at::kBFloat16 && x.numel() % kEight == 0 &&
                  reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0,
              "swiglu: on a GPU numbers are bf16, a multiple of 8 of them at a multiple of 16 "
              "bytes, but they are ",
              x.scalar_type(), " ", x.sizes());
}

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>(divided(count, kGateThreads * kEight));
}

at::Tensor swiglu_gpu(const at::Tensor& a, const at::Tensor& b) {
  check_swiglu(a, b);
  check_fits(a);
  check_fits(b);
  const c10::cuda::CUDAGuard guard(a.device());
  auto product = at::empty_like(a);
  if (a.numel() == 0) return product;
  swiglu_kernel<<<blocks_for(a.numel()), kGateThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      a.const_data_ptr<T>(), b.const_data_ptr<T>(), product.mutable_data_ptr<T>(), a.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return product;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_gpu(const at::Tensor& gradient,
                                                       const at::Tensor& a, const at::Tensor& b) {
  check_swiglu(a, b);
  check_swiglu(a, gradient);
  for (const auto& x : {gradient, a, b}) check_fits(x);
  const c10::cuda::CUDAGuard guard(a.device());
  auto of_a = at::empty_like(a), of_b = at::empty_like(b);
  if (a.numel() == 0) return {of_a, of_b};
  gradients_kernel<<<blocks_for(a.numel()), kGateThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      gradient.mutable_data_ptr<T>(), a.const_data_ptr<T>(), b.const_data_ptr<T>(),
      of_a.mutable_data_ptr<T>(), of_b.mutable_data_ptr<T>(), a.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {of_a, of_b};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("swiglu", swiglu_gpu);
  m.impl("swiglu_backward_", swiglu_backward_gpu);
}

}  // namespace nsvq::transformer_cuda
