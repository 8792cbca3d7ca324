// The forward pass in three kernels: moments of splits, moments of groups, and the output.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/group_norm/group_norm_pixels.cuh"
#include "nsvq/ops/group_norm/group_norm_statistics.cuh"

namespace nsvq::group_norm_cuda {

namespace {

/// The moments of a thread's pixels. If something is added they are those of the sum, which is
/// written where there is room for it.
template <typename T, int V, bool kAdds>
__device__ Moments<V> moments_of(const Shape& shape, const T* input, const Addition<T>& addition,
                                 const Place& place) {
  Moments<V> moments{};
  if (place.idle) return moments;
  [[maybe_unused]] const Addend<T, V> addend(shape, addition, place);
  place.for_pixels<kForwardBatch>([&](auto count, int pixel) {
    constexpr int n = decltype(count)::value;
    Pack<T, V> packs[n];
    [[maybe_unused]] Pack<T, V> others[n];
    float x[n][V];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const int64_t offset = place.offset(shape, pixel + i * place.rows);
      packs[i] = load<V>(input + offset);
      if constexpr (kAdds) others[i] = addend.load_other(pixel + i * place.rows);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if constexpr (kAdds) {
        packs[i] = addend.sum(packs[i], others[i]);
        if (addition.sum)
          store(packs[i], addition.sum + place.offset(shape, pixel + i * place.rows));
      }
      unpack(packs[i], x[i]);
    }
    moments.add(x);
  });
  return moments;
}

/// Writes partials [images, splits, channels]: mean and squares.
template <typename T, int V, bool kAdds>
__global__ void __launch_bounds__(kThreads)
    partial_moments(Shape shape, Plan plan, const T* input, Addition<T> addition,
                    float2* partials) {
  __shared__ Moments<V> table[kThreads / 2];
  const Place place(shape, plan, V, blockIdx.x);
  auto moments = moments_of<T, V, kAdds>(shape, input, addition, place);
  merge_rows(moments, table, place);
  write_partials<V>(shape, place, moments, partials);
}

__device__ float pixels_of(const Shape& shape, const Plan& plan, int split) {
  return static_cast<float>(
      min(plan.pixels_per_split, shape.pixels - split * plan.pixels_per_split));
}

/// Merges the partials, a warp for each image and group.
__global__ void __launch_bounds__(kThreads)
    finish_moments(Shape shape, Plan plan, const float2* partials, float eps, float* mean,
                   float* rstd) {
  const int64_t index = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  if (index >= shape.images * shape.groups) return;
  const int size = shape.group_size(), lane = threadIdx.x % kWarp;
  const auto* from =
      partials + index / shape.groups * plan.splits * shape.channels + index % shape.groups * size;
  Moments<1> all{};
  for (int i = lane; i < plan.splits * size; i += kWarp) {
    const int split = i / size;
    const auto partial = from[static_cast<int64_t>(split) * shape.channels + i % size];
    all.merge({pixels_of(shape, plan, split), {partial.x}, {partial.y}});
  }
  merge_lanes(all);
  if (lane > 0) return;
  mean[index] = all.mean[0];
  rstd[index] = rstd_of(all, eps);
}

/// With kAdds what is equal at all pixels is added first.
template <typename T, int V, bool kAdds>
__global__ void __launch_bounds__(kThreads)
    apply_forward(Shape shape, Plan plan, Tensors<T> t, Addition<T> addition, bool silu) {
  const Place place(shape, plan, V, from_the_end());
  if (place.idle) return;
  const Affine<V> affine(shape, t, place);
  [[maybe_unused]] const Addend<T, V> addend(shape, addition, place);
  place.for_pixels<kForwardBatch>([&](auto count, int pixel) {
    constexpr int n = decltype(count)::value;
    Pack<T, V> x[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = load<V>(t.input + place.offset(shape, pixel + i * place.rows));
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      if constexpr (kAdds) x[i] = addend.sum(x[i], Pack<T, V>{});
      store(normalise(x[i], affine, silu), t.result + place.offset(shape, pixel + i * place.rows));
    }
  });
}

}  // namespace

template <typename T, int V>
void launch_forward(const Shape& shape, const Plan& plan, Tensors<T> t, const Addition<T>& addition,
                    float eps, bool silu, float2* partials, cudaStream_t stream) {
  const dim3 grid(shape.images * plan.splits, plan.channel_blocks);
  const bool adds = addition.any();
  const auto first = adds ? partial_moments<T, V, true> : partial_moments<T, V, false>;
  first<<<grid, kThreads, 0, stream>>>(shape, plan, t.input, addition, partials);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  if (addition.sum) t.input = addition.sum;
  finish_moments<<<divided(shape.images * shape.groups, kThreads / kWarp), kThreads, 0, stream>>>(
      shape, plan, partials, eps, t.mean, t.rstd);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto second =
      adds && !addition.sum ? apply_forward<T, V, true> : apply_forward<T, V, false>;
  second<<<grid, kThreads, 0, stream>>>(shape, plan, t, addition, silu);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

#define NSVQ_FOR(T, V)                                                                          \
  template void launch_forward<T, V>(const Shape&, const Plan&, Tensors<T>, const Addition<T>&, \
                                     float, bool, float2*, cudaStream_t);
NSVQ_FOR(float, 4)
NSVQ_FOR(float, 1)
NSVQ_FOR(c10::Half, 8)
NSVQ_FOR(c10::Half, 1)
NSVQ_FOR(c10::BFloat16, 8)
NSVQ_FOR(c10::BFloat16, 1)

}  // namespace nsvq::group_norm_cuda
