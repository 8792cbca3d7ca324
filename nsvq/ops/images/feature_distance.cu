// A warp per position: its lanes hold the channels of both activations, so that lengths,
// differences and gradients need one reading of each.

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>

namespace nsvq {

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;
constexpr int kMostPerLane = 32;  // so up to 1,024 channels
constexpr float kLeast = 1e-10f;

struct Shape {
  int64_t images, positions;
  int channels;
};

__device__ float sum_over_warp(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffff, value, offset);
  }
  return value;
}

/// A lane's channels of a position, `kPer` of them, and the length of the whole vector.
template <int kPer>
struct Held {
  float value[kPer];
  float length;

  template <typename T>
  __device__ Held(const T* __restrict__ position, int channels, int lane) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int channel = lane + i * kWarp;
      value[i] = channel < channels ? static_cast<float>(position[channel]) : 0.f;
      squares += value[i] * value[i];
    }
    length = sqrtf(sum_over_warp(squares));
  }
};

/// Writes the sum over a block's positions to `partial` [images, blocks of an image].
template <typename T, int kPer>
__global__ void __launch_bounds__(kWarp* kWarps)
    distances(const T* __restrict__ ours, const T* __restrict__ theirs,
              const float* __restrict__ weights, Shape shape, float* __restrict__ partial) {
  __shared__ float sums[kWarps];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t start = static_cast<int64_t>(blockIdx.y) * shape.positions;
  float total = 0;
  for (int64_t at = blockIdx.x * kWarps + warp; at < shape.positions; at += gridDim.x * kWarps) {
    const int64_t place = (start + at) * shape.channels;
    const Held<kPer> a(ours + place, shape.channels, lane), b(theirs + place, shape.channels, lane);
    const float of_a = 1 / (a.length + kLeast), of_b = 1 / (b.length + kLeast);
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int channel = lane + i * kWarp;
      const float difference = a.value[i] * of_a - b.value[i] * of_b;
      if (channel < shape.channels) total += weights[channel] * difference * difference;
    }
  }
  total = sum_over_warp(total);
  if (lane == 0) sums[warp] = total;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0;
    for (int i = 0; i < kWarps; ++i) all += sums[i];
    partial[blockIdx.y * gridDim.x + blockIdx.x] = all / static_cast<float>(shape.positions);
  }
}

/// Writes the gradient. With u = a / (n + eps), n = |a|: da = g / (n + eps) - a (g . a) / (n (n +
/// eps)^2), where g is the gradient for u.
template <typename T, int kPer>
__global__ void __launch_bounds__(kWarp* kWarps)
    gradients(const float* __restrict__ gradient, const T* __restrict__ ours,
              const T* __restrict__ theirs, const float* __restrict__ weights, Shape shape,
              T* __restrict__ result) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t start = static_cast<int64_t>(blockIdx.y) * shape.positions;
  const float scale = 2 * gradient[blockIdx.y] / static_cast<float>(shape.positions);
  for (int64_t at = blockIdx.x * kWarps + warp; at < shape.positions; at += gridDim.x * kWarps) {
    const int64_t place = (start + at) * shape.channels;
    const Held<kPer> a(ours + place, shape.channels, lane), b(theirs + place, shape.channels, lane);
    const float of_a = 1 / (a.length + kLeast), of_b = 1 / (b.length + kLeast);
    float pull[kPer], along = 0;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int channel = lane + i * kWarp;
      const float weight = channel < shape.channels ? weights[channel] : 0.f;
      pull[i] = scale * weight * (a.value[i] * of_a - b.value[i] * of_b);
      along += pull[i] * a.value[i];
    }
    along = sum_over_warp(along);
    const float back = a.length > 0 ? along * of_a * of_a / a.length : 0.f;
#pragma unroll
    for (int i = 0; i < kPer; ++i) {
      const int channel = lane + i * kWarp;
      // At 0 the length has no direction, and 1 / eps would be no gradient anybody wants.
      const float value = a.length > 0 ? pull[i] * of_a - a.value[i] * back : 0.f;
      if (channel < shape.channels) result[place + channel] = static_cast<T>(value);
    }
  }
}

Shape shape_of(const at::Tensor& x, const at::Tensor& other, const at::Tensor& weights) {
  const auto last = at::MemoryFormat::ChannelsLast;
  TORCH_CHECK(x.dim() == 4 && x.sizes() == other.sizes() && weights.numel() == x.size(1) &&
                  x.scalar_type() == other.scalar_type() && x.is_contiguous(last) &&
                  other.is_contiguous(last) && other.device() == x.device() &&
                  weights.device() == x.device(),
              "feature_distance: needs channels-last activations of one shape, type and device");
  TORCH_CHECK(x.size(1) <= kWarp * kMostPerLane, "feature_distance: at most ", kWarp * kMostPerLane,
              " channels, got ", x.size(1));
  TORCH_CHECK(x.size(0) <= 65535, "feature_distance: at most 65535 images, got ", x.size(0));
  return {x.size(0), x.size(2) * x.size(3), static_cast<int>(x.size(1))};
}

dim3 grid_for(const Shape& shape) {
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t enough = std::max<int64_t>(1, 16 * processors / shape.images);
  return {static_cast<unsigned>(std::min((shape.positions + kWarps - 1) / kWarps, enough)),
          static_cast<unsigned>(shape.images)};
}

/// Calls `action` with the number of channels per lane as a constant.
template <typename Action>
void with_channels_of_a_lane(int channels, const Action& action) {
  const int needed = (channels + kWarp - 1) / kWarp;
  if (needed <= 2) return action(std::integral_constant<int, 2>());
  if (needed <= 4) return action(std::integral_constant<int, 4>());
  if (needed <= 8) return action(std::integral_constant<int, 8>());
  if (needed <= 16) return action(std::integral_constant<int, 16>());
  return action(std::integral_constant<int, kMostPerLane>());
}

at::Tensor feature_distance_cuda(const at::Tensor& ours, const at::Tensor& theirs,
                                 const at::Tensor& weights) {
  const c10::cuda::CUDAGuard guard(ours.device());
  const auto shape = shape_of(ours, theirs, weights);
  const auto options = ours.options().dtype(at::kFloat);
  if (ours.numel() == 0) return at::zeros({shape.images}, options);
  const auto factors = weights.to(at::kFloat);
  const auto grid = grid_for(shape);
  const auto partial = at::empty({shape.images, grid.x}, options);
  const auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, ours.scalar_type(), "feature_distance", [&] {
        with_channels_of_a_lane(shape.channels, [&](auto per) {
          distances<scalar_t, per.value><<<grid, kWarp * kWarps, 0, stream>>>(
              ours.const_data_ptr<scalar_t>(), theirs.const_data_ptr<scalar_t>(),
              factors.const_data_ptr<float>(), shape, partial.mutable_data_ptr<float>());
        });
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return partial.sum(1);
}

at::Tensor feature_distance_backward_cuda(const at::Tensor& gradient, const at::Tensor& ours,
                                          const at::Tensor& theirs, const at::Tensor& weights) {
  const c10::cuda::CUDAGuard guard(ours.device());
  const auto shape = shape_of(ours, theirs, weights);
  auto result = at::empty_like(ours);
  if (ours.numel() == 0) return result;
  const auto factors = weights.to(at::kFloat);
  const auto stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, ours.scalar_type(), "feature_distance_backward", [&] {
        with_channels_of_a_lane(shape.channels, [&](auto per) {
          gradients<scalar_t, per.value><<<grid_for(shape), kWarp * kWarps, 0, stream>>>(
              gradient.const_data_ptr<float>(), ours.const_data_ptr<scalar_t>(),
              theirs.const_data_ptr<scalar_t>(), factors.const_data_ptr<float>(), shape,
              result.mutable_data_ptr<scalar_t>());
        });
        C10_CUDA_KERNEL_LAUNCH_CHECK();
      });
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("feature_distance", feature_distance_cuda);
  m.impl("feature_distance_backward", feature_distance_backward_cuda);
}

}  // namespace nsvq
