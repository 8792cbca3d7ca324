// Bias and ReLU in place, in one pass over channels-last memory: a thread has V adjacent channels,
// whose bias it keeps, and walks over pixels.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/images/bias_relu.h"

namespace nsvq::bias_relu_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;

constexpr int kThreads = 256;
constexpr int kBatch = 4;  // pixels that a thread reads at a time

/// relu(x + shift); a NaN stays NaN, as with at::relu.
template <typename T, int V>
__device__ Pack<T, V> shifted(const Pack<T, V>& x, const float (&shift)[V]) {
  float values[V];
  unpack(x, values);
  Pack<T, V> y;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float sum = values[v] + shift[v];
    y.values[v] = static_cast<T>(sum <= 0 ? 0.0f : sum);
  }
  return y;
}

/// `lanes` threads share a pixel; block (x, y) has the y-th range of its channels.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    bias_relu(T* x, const float* __restrict__ bias, int64_t pixels, int channels, int lanes) {
  const int rows = kThreads / lanes, row = threadIdx.x / lanes;
  const int channel = (blockIdx.y * lanes + threadIdx.x % lanes) * V;
  if (row >= rows || channel >= channels) return;
  float shift[V];
#pragma unroll
  for (int v = 0; v < V; ++v) shift[v] = bias[channel + v];
  const int64_t step = static_cast<int64_t>(gridDim.x) * rows;
  int64_t pixel = static_cast<int64_t>(blockIdx.x) * rows + row;
  for (; pixel + (kBatch - 1) * step < pixels; pixel += kBatch * step) {
    Pack<T, V> packs[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      packs[i] = load<V>(x + (pixel + i * step) * channels + channel);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      store(shifted(packs[i], shift), x + (pixel + i * step) * channels + channel);
    }
  }
  for (; pixel < pixels; pixel += step) {
    T* at = x + pixel * channels + channel;
    store(shifted(load<V>(at), shift), at);
  }
}

template <typename T, int V>
void launch(const at::Tensor& x, const at::Tensor& bias) {
  const int64_t channels = x.size(1), pixels = x.numel() / channels, vectors = channels / V;
  const int64_t parts = divided(vectors, kThreads), lanes = divided(vectors, parts);
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t blocks =
      std::min(divided(pixels, kThreads / lanes), divided(16 * processors, parts));
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(parts));
  bias_relu<T, V><<<grid, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.mutable_data_ptr<T>(), bias.const_data_ptr<float>(), pixels, static_cast<int>(channels),
      static_cast<int>(lanes));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void launch_for(const at::Tensor& x, const at::Tensor& bias) {
  constexpr int V = 16 / sizeof(T);
  const bool aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
  if (aligned && x.size(1) % V == 0) return launch<T, V>(x, bias);
  launch<T, 1>(x, bias);
}

void bias_relu_cuda(const at::Tensor& x, const at::Tensor& bias) {
  check_bias_relu(x, bias);
  TORCH_CHECK(x.size(1) < (int64_t{1} << 23), "bias_relu: x has too many channels: ", x.sizes());
  if (x.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(x.device());
  const auto shift = bias.to(at::kFloat).contiguous();
  if (x.scalar_type() == at::kFloat) return launch_for<float>(x, shift);
  if (x.scalar_type() == at::kHalf) return launch_for<c10::Half>(x, shift);
  launch_for<c10::BFloat16>(x, shift);
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("bias_relu_", bias_relu_cuda); }

}  // namespace nsvq::bias_relu_cuda
