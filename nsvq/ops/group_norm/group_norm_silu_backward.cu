// The backward pass in three kernels (sums of splits, sums of groups, the input's gradient), and
// the gradients of weight and bias.
#include <c10/cuda/CUDAException.h>

#include "nsvq/ops/group_norm/group_norm_pixels.cuh"
#include "nsvq/ops/group_norm/group_norm_statistics.cuh"

namespace nsvq::group_norm_cuda {

namespace {

/// Calls visit(x - mean, du, offset, carried) for each of a thread's vectors; with kCarries
/// `carried` is read.
template <bool kCarries, typename T, int V, typename Visit>
__device__ void each_vector(const Shape& shape, const Tensors<T>& t, const Place& place,
                            const Affine<V>& affine, bool silu, Visit visit) {
  place.for_pixels<kBackwardBatch>([&](auto count, int pixel) {
    constexpr int n = decltype(count)::value;
    const int64_t first = place.offset(shape, pixel);
    const int64_t step = static_cast<int64_t>(place.rows) * shape.channels;
    Pack<T, V> x[n], dy[n], carried[n];
#pragma unroll
    for (int i = 0; i < n; ++i) {
      x[i] = load<V>(t.input + first + i * step);
      dy[i] = load<V>(t.gradient + first + i * step);
      if constexpr (kCarries) carried[i] = load<V>(t.carried + first + i * step);
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
      float centred[V], du[V];
      before_silu(x[i], dy[i], affine, silu, centred, du);
      visit(centred, du, first + i * step, carried[i]);
    }
  });
}

/// Writes partials [images, splits, channels]: sums of du and of du (x - mean).
template <typename T, int V>
__global__ void __launch_bounds__(kThreads, 3)
    partial_sums(Shape shape, Plan plan, Tensors<T> t, bool silu, float2* partials) {
  __shared__ Sums<V> table[kThreads / 2];
  const Place place(shape, plan, V, blockIdx.x);
  Sums<V> sums{};
  const auto add = [&](const float(&centred)[V], const float(&du)[V], int64_t /*offset*/,
                       const Pack<T, V>& /*carried*/) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      sums.plain[v] += du[v];
      sums.centred[v] += du[v] * centred[v];
    }
  };
  if (!place.idle) each_vector<false>(shape, t, place, Affine<V>(shape, t, place), silu, add);
  merge_rows(sums, table, place);
  write_partials<V>(shape, place, sums, partials);
}

constexpr int kFinishWarps = 4;

/// Sums over splits and groups: a block for each image and group, whose warps take channels one
/// after the other. sums [images, channels].
template <typename T>
__global__ void __launch_bounds__(kFinishWarps* kWarp)
    finish_sums(Shape shape, Plan plan, const float2* partials, Parameter<T> weight,
                const float* rstd, float2* sums, Pull* pulls) {
  __shared__ Sums<1> of_warps[kFinishWarps];
  const int64_t image = blockIdx.x / shape.groups;
  const int size = shape.group_size(), first = blockIdx.x % shape.groups * size;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  Sums<1> weighted{};
  for (int channel = first + warp; channel < first + size; channel += kFinishWarps) {
    Sums<1> own{};
    for (int split = lane; split < plan.splits; split += kWarp) {
      const auto partial = partials[(image * plan.splits + split) * shape.channels + channel];
      own.merge({{partial.x}, {partial.y}});
    }
    merge_lanes(own);
    if (lane == 0) sums[image * shape.channels + channel] = own.of_channel(0);
    weighted.merge({{own.plain[0] * weight[channel]}, {own.centred[0] * weight[channel]}});
  }
  if (lane == 0) of_warps[warp] = weighted;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < kFinishWarps; ++i) weighted.merge(of_warps[i]);
  pulls[blockIdx.x] = pull_of(shape, weighted, rstd[blockIdx.x]);
}

template <typename T, int V, bool kCarries>
__global__ void __launch_bounds__(kThreads, kCarries ? 2 : 3)
    apply_backward(Shape shape, Plan plan, Tensors<T> t, bool silu, const Pull* pulls) {
  const Place place(shape, plan, V, from_the_end());
  if (place.idle) return;
  const Affine<V> affine(shape, t, place);
  Pull pull[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    pull[v] = pulls[place.image * shape.groups + (place.channel + v) / shape.group_size()];
  }
  const auto apply = [&](const float(&centred)[V], const float(&du)[V], int64_t offset,
                         const Pack<T, V>& carried) {
    float more[V]{};
    if constexpr (kCarries) unpack(carried, more);
    Pack<T, V> dx;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float direct = du[v] * affine.scale[v];
      const float own = direct - pull[v].level - centred[v] * pull[v].tilt;
      dx.values[v] = static_cast<T>(kCarries ? own + more[v] : own);
    }
    store(dx, t.result + offset);
  };
  each_vector<kCarries>(shape, t, place, affine, silu, apply);
}

/// The gradients of weight and bias, a warp for each channel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_images(Shape shape, const float2* sums, const float* rstd, Parameter<T> weight,
               Parameter<T> bias) {
  const int channel = (blockIdx.x * kThreads + threadIdx.x) / kWarp, lane = threadIdx.x % kWarp;
  if (channel >= shape.channels) return;
  Sums<1> own{};
  for (int64_t image = lane; image < shape.images; image += kWarp) {
    const auto sum = sums[image * shape.channels + channel];
    own.merge({{sum.x}, {sum.y * rstd[image * shape.groups + channel / shape.group_size()]}});
  }
  merge_lanes(own);
  if (lane > 0) return;
  bias.set(channel, own.plain[0]);
  weight.set(channel, own.centred[0]);
}

}  // namespace

template <typename T, int V>
void launch_backward(const Shape& shape, const Plan& plan, const Tensors<T>& t, bool silu,
                     float2* partials, Pull* pulls, float2* sums, cudaStream_t stream) {
  const dim3 grid(shape.images * plan.splits, plan.channel_blocks);
  partial_sums<T, V><<<grid, kThreads, 0, stream>>>(shape, plan, t, silu, partials);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  finish_sums<T><<<shape.images * shape.groups, kFinishWarps * kWarp, 0, stream>>>(
      shape, plan, partials, t.weight, t.rstd, sums, pulls);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const auto last = t.carried ? apply_backward<T, V, true> : apply_backward<T, V, false>;
  last<<<grid, kThreads, 0, stream>>>(shape, plan, t, silu, pulls);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T>
void parameter_gradients(const Shape& shape, const float2* sums, const float* rstd,
                         Parameter<T> weight, Parameter<T> bias, cudaStream_t stream) {
  add_images<<<divided(shape.channels, kThreads / kWarp), kThreads, 0, stream>>>(shape, sums, rstd,
                                                                                 weight, bias);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

#define NSVQ_FOR(T, V)                                                                             \
  template void launch_backward<T, V>(const Shape&, const Plan&, const Tensors<T>&, bool, float2*, \
                                      Pull*, float2*, cudaStream_t);
NSVQ_FOR(float, 4)
NSVQ_FOR(float, 1)
NSVQ_FOR(c10::Half, 8)
NSVQ_FOR(c10::Half, 1)
NSVQ_FOR(c10::BFloat16, 8)
NSVQ_FOR(c10::BFloat16, 1)

#define NSVQ_FOR_TYPE(T)                                                                        \
  template void parameter_gradients<T>(const Shape&, const float2*, const float*, Parameter<T>, \
                                       Parameter<T>, cudaStream_t);
NSVQ_FOR_TYPE(float)
NSVQ_FOR_TYPE(c10::Half)
NSVQ_FOR_TYPE(c10::BFloat16)

}  // namespace nsvq::group_norm_cuda
