// A bias added on the way to the wide image, and its gradient summed on the way back, in fixed
// order: of each row by its block, then of the rows.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <tuple>

#include "nsvq/ops/common/dispatch.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/images/depth_to_space.cuh"

namespace nsvq::depth_to_space_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;

/// Whether all pieces of a thread, kThreads apart, have the same channels of the deep image.
__host__ __device__ bool keeps_channels(int64_t run) { return kThreads % (2 * run) == 0; }

/// Writes a row of the wide image, by a block, in pieces of V numbers.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    depth_to_space_bias(const T* __restrict__ from, const float* __restrict__ bias,
                        T* __restrict__ to, int run, Image wide) {
  const Row row(wide, run);
  const float* of_row = bias + row.odd * 2 * wide.channels;
  const bool keeps = keeps_channels(run);
  float shift[V];
  for (int at = threadIdx.x; at < row.pieces; at += kThreads) {
    if (!keeps || at < kThreads) {
#pragma unroll
      for (int v = 0; v < V; ++v) shift[v] = of_row[at % (2 * run) * V + v];
    }
    float values[V];
    unpack(load<V>(from + row.deep(at) * V), values);
    Pack<T, V> sums;
#pragma unroll
    for (int v = 0; v < V; ++v) sums.values[v] = static_cast<T>(values[v] + shift[v]);
    store(sums, to + (row.wide_start + at) * V);
  }
}

/// The way back, with threads that keep their channels. Writes partials [rows of the wide image, 2
/// channels]: sums of even and of odd pixels.
template <typename T, int V>
__global__ void __launch_bounds__(kThreads)
    space_to_depth_sums(const T* __restrict__ from, T* __restrict__ to,
                        float* __restrict__ partials, int run, Image wide) {
  __shared__ float table[V][kThreads];
  const Row row(wide, run);
  float sums[V]{};
  for (int at = threadIdx.x; at < row.pieces; at += kThreads) {
    const auto pack = load<V>(from + (row.wide_start + at) * V);
    store(pack, to + row.deep(at) * V);
    float values[V];
    unpack(pack, values);
#pragma unroll
    for (int v = 0; v < V; ++v) sums[v] += values[v];
  }
#pragma unroll
  for (int v = 0; v < V; ++v) table[v][threadIdx.x] = sums[v];
  __syncthreads();
  const int period = 2 * run;  // threads so far apart have the same channels
  for (int i = threadIdx.x; i < period * V; i += kThreads) {
    float sum = 0;
    for (int thread = i / V; thread < kThreads; thread += period) sum += table[i % V][thread];
    partials[static_cast<int64_t>(blockIdx.x) * period * V + i] = sum;
  }
}

bool aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

/// Calls body(T, V as a constant) for x's type and whether pieces of 16 bytes will do.
template <typename Body>
void for_type(const at::Tensor& x, int64_t channels, Body body) {
  const auto with = [&](auto type) {
    constexpr int V = 16 / sizeof(type);
    if (channels % V == 0 && aligned(x)) return body(type, std::integral_constant<int, V>{});
    body(type, std::integral_constant<int, 1>{});
  };
  if (x.scalar_type() == at::kFloat) return with(float{});
  if (x.scalar_type() == at::kHalf) return with(c10::Half{});
  TORCH_CHECK(x.scalar_type() == at::kBFloat16,
              "depth_to_space: a bias needs fp32, bf16 or fp16, got ", x.scalar_type());
  with(c10::BFloat16{});
}

at::Tensor depth_to_space_bias_cuda(const at::Tensor& input, const at::Tensor& bias) {
  TORCH_CHECK(input.dim() == 4 && input.size(1) % 4 == 0,
              "depth_to_space: needs [B, 4C, H, W], got ", input.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == input.size(1), "depth_to_space: bias must be [",
              input.size(1), "], but it is ", bias.sizes());
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto shift = bias.to(at::kFloat).contiguous();
  const Image wide{x.size(0), x.size(1) / 4, x.size(2) * 2, x.size(3) * 2};
  auto out = at::empty({wide.images, wide.channels, wide.height, wide.width}, x.options(),
                       at::MemoryFormat::ChannelsLast);
  if (x.numel() == 0) return out;
  for_type(x, wide.channels, [&](auto type, auto vector) {
    using T = decltype(type);
    constexpr int V = vector;
    const int64_t run = wide.channels / V;
    check_sizes(wide, run);
    depth_to_space_bias<T, V>
        <<<wide.images * wide.height, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.const_data_ptr<T>(), shift.const_data_ptr<float>(), out.mutable_data_ptr<T>(),
            static_cast<int>(run), wide);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return out;
}

/// The deep image and the sums of its channels; both undefined where threads do not keep their
/// channels.
std::tuple<at::Tensor, at::Tensor> in_one_pass(const at::Tensor& x, const Image& wide) {
  at::Tensor out, sums;
  for_type(x, wide.channels, [&](auto type, auto vector) {
    using T = decltype(type);
    constexpr int V = vector;
    const int64_t run = wide.channels / V;
    check_sizes(wide, run);
    if (!keeps_channels(run)) return;
    out = at::empty({wide.images, wide.channels * 4, wide.height / 2, wide.width / 2}, x.options(),
                    at::MemoryFormat::ChannelsLast);
    const auto partials = at::empty({wide.images, wide.height / 2, 2, 2 * wide.channels},
                                    x.options().dtype(at::kFloat));
    space_to_depth_sums<T, V>
        <<<wide.images * wide.height, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.const_data_ptr<T>(), out.mutable_data_ptr<T>(), partials.mutable_data_ptr<float>(),
            static_cast<int>(run), wide);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    sums = partials.sum(at::IntArrayRef({0, 1})).flatten();
  });
  return {out, sums};
}

std::tuple<at::Tensor, at::Tensor> space_to_depth_sums_cuda(const at::Tensor& input) {
  TORCH_CHECK(input.dim() == 4 && input.size(2) % 2 == 0 && input.size(3) % 2 == 0,
              "space_to_depth: needs [B, C, 2H, 2W], got ", input.sizes());
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const Image wide{x.size(0), x.size(1), x.size(2), x.size(3)};
  if (x.numel() > 0) {
    auto [out, sums] = in_one_pass(x, wide);
    if (sums.defined()) return {out, sums};
  }
  static const auto op = operator_named<at::Tensor(const at::Tensor&)>("nsvq::space_to_depth");
  const auto out = op.call(x);
  return {out, out.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat)};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("depth_to_space_bias", depth_to_space_bias_cuda);
  m.impl("space_to_depth_sums", space_to_depth_sums_cuda);
}

}  // namespace nsvq::depth_to_space_cuda
