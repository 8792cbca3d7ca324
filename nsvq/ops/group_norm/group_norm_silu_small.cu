// The forward pass in one kernel, for images of few pixels: a block holds some groups of an image
// in its registers, so that the input is read once. A vector lies in one group.
#include <c10/cuda/CUDAException.h>

#include <algorithm>

#include "nsvq/ops/group_norm/group_norm_pixels.cuh"

namespace nsvq::group_norm_cuda {

namespace {

/// The most vectors that a thread holds, and the most channels of a block.
constexpr int kMostItems = 8, kMostChannels = 256;

/// Where a thread's channels are read: in the input, or in the skip whose channels follow it.
template <typename T>
struct Source {
  const T* first;  ///< at pixel 0
  int channels;    ///< numbers from a pixel to the next

  __device__ Source(const Shape& shape, const T* input, const Addition<T>& addition,
                    const Place& place) {
    const int own = shape.channels - addition.skip_channels;
    const bool skips = place.channel >= own;
    channels = skips ? addition.skip_channels : own;
    first = (skips ? addition.skip - own : input) + place.channel +
            place.image * shape.pixels * channels;
  }
  __device__ const T* at(int pixel) const { return first + pixel * channels; }
};

/// The vectors that a thread holds. If something is added they are those of the sum, which is
/// written.
template <typename T, int V, int kItems, bool kAdds>
struct Items {
  Pack<T, V> packs[kItems];

  __device__ Items(const Shape& shape, const T* input, const Addition<T>& addition,
                   const Place& place) {
    const int64_t first = place.offset(shape, 0);
    if constexpr (!kAdds) {
      visit(place,
            [&](int i, int pixel) { packs[i] = load<V>(input + first + pixel * shape.channels); });
    } else {
      const Source<T> source(shape, input, addition, place);
      visit(place, [&](int i, int pixel) { packs[i] = load<V>(source.at(pixel)); });
      const Addend<T, V> addend(shape, addition, place);
      visit(place, [&](int i, int pixel) {
        if (addend.any) packs[i] = addend.sum(packs[i], addend.load_other(pixel));
        if (addition.sum) store(packs[i], addition.sum + first + pixel * shape.channels);
      });
    }
  }

  /// Calls body(index, pixel) for each of the thread's vectors.
  template <typename Body>
  __device__ static void visit(const Place& place, Body body) {
    if (place.idle) return;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int pixel = place.row + i * place.rows;
      if (pixel < place.last) body(i, pixel);
    }
  }

  /// The sum of f(x) over all numbers.
  template <typename Function>
  __device__ float sum_of(const Place& place, Function f) const {
    float sums[V] = {};
    visit(place, [&](int i, int) {
      float x[V];
      unpack(packs[i], x);
#pragma unroll
      for (int v = 0; v < V; ++v) sums[v] += f(x[v]);
    });
    float sum = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) sum += sums[v];
    return sum;
  }
};

/// Sums over the threads that have channels of one group.
struct GroupSums {
  float table[kThreads];  ///< [lanes, rows], so that those of a group lie side by side
  float totals[kMostChannels];

  /// The sum over this thread's group, which has `lanes` lanes. Called by all threads.
  __device__ float total(const Place& place, int lanes, float own) {
    if (place.row < place.rows) table[place.lane * place.rows + place.row] = own;
    __syncthreads();
    const int groups = place.lanes / lanes, count = lanes * place.rows;
    const int lane = threadIdx.x % kWarp;
    for (int group = threadIdx.x / kWarp; group < groups; group += kThreads / kWarp) {
      float sum = 0;
      for (int i = lane; i < count; i += kWarp) sum += table[group * count + i];
      for (int apart = kWarp / 2; apart > 0; apart /= 2) {
        sum += __shfl_xor_sync(~0u, sum, apart);
      }
      if (lane == 0) totals[group] = sum;
    }
    __syncthreads();
    return totals[place.lane / lanes];
  }
};

/// The whole forward pass. Registers are those that three or four blocks on a processor leave: more
/// blocks hide more latency.
template <typename T, int V, int kItems, bool kAdds>
__global__ void __launch_bounds__(kThreads, kItems > 4 ? 3 : 4)
    small_forward(Shape shape, Plan plan, Tensors<T> t, Addition<T> addition, float eps,
                  bool silu) {
  __shared__ GroupSums sums;
  const Place place(shape, plan, V, blockIdx.x);
  const Items<T, V, kItems, kAdds> items(shape, t.input, addition, place);
  const int lanes = shape.group_size() / V;
  const float share = 1.0f / (static_cast<float>(shape.pixels) * shape.group_size());
  const float mean =
      share * sums.total(place, lanes, items.sum_of(place, [](float x) { return x; }));
  const float variance =
      share * sums.total(place, lanes,
                         items.sum_of(place, [&](float x) { return (x - mean) * (x - mean); }));
  if (place.idle) return;
  const float rstd = 1 / sqrtf(variance + eps);
  if (place.row == 0 && place.lane % lanes == 0) {
    const int64_t index = place.image * shape.groups + place.channel / shape.group_size();
    t.mean[index] = mean;
    t.rstd[index] = rstd;
  }
  const Affine<V> affine(t, place.channel, mean, rstd);
  const int64_t first = place.offset(shape, 0);
  items.visit(place, [&](int i, int pixel) {
    store(normalise(items.packs[i], affine, silu), t.result + first + pixel * shape.channels);
  });
}

template <typename T, int V, int kItems>
void launch(const Shape& shape, const Plan& plan, const Tensors<T>& t, const Addition<T>& addition,
            float eps, bool silu, cudaStream_t stream) {
  const auto kernel =
      addition.any() ? small_forward<T, V, kItems, true> : small_forward<T, V, kItems, false>;
  const dim3 grid(shape.images, plan.channel_blocks);
  kernel<<<grid, kThreads, 0, stream>>>(shape, plan, t, addition, eps, silu);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

int items_of(const Plan& plan) {
  return static_cast<int>(divided(plan.pixels_per_split, kThreads / plan.lanes));
}

}  // namespace

std::optional<Plan> plan_small_forward(const Shape& shape, int vector, int bytes, int processors) {
  const int unit = shape.group_size();
  if (unit % vector != 0) return std::nullopt;
  std::optional<Plan> best;
  for (int channels = unit; channels <= std::min(kMostChannels, shape.channels); channels += unit) {
    if (shape.channels % channels != 0) continue;  // blocks of equal work
    const Plan plan{.lanes = channels / vector,
                    .channel_blocks = shape.channels / channels,
                    .splits = 1,
                    .pixels_per_split = shape.pixels};
    // Less than two sectors a pixel would waste memory's bandwidth.
    if (channels * bytes < 64 && channels < shape.channels) continue;
    if (items_of(plan) > kMostItems) break;
    if (best && shape.images * plan.channel_blocks < 4 * processors) break;
    best = plan;
  }
  return best;
}

template <typename T, int V>
void launch_small_forward(const Shape& shape, const Plan& plan, const Tensors<T>& t,
                          const Addition<T>& addition, float eps, bool silu, cudaStream_t stream) {
  const int items = items_of(plan);
  if (items == 1) return launch<T, V, 1>(shape, plan, t, addition, eps, silu, stream);
  if (items == 2) return launch<T, V, 2>(shape, plan, t, addition, eps, silu, stream);
  if (items <= 4) return launch<T, V, 4>(shape, plan, t, addition, eps, silu, stream);
  launch<T, V, 8>(shape, plan, t, addition, eps, silu, stream);
}

#define NSVQ_FOR(T, V)                                                                   \
  template void launch_small_forward<T, V>(const Shape&, const Plan&, const Tensors<T>&, \
                                           const Addition<T>&, float, bool, cudaStream_t);
NSVQ_FOR(float, 4)
NSVQ_FOR(c10::Half, 8)
NSVQ_FOR(c10::Half, 4)
NSVQ_FOR(c10::BFloat16, 8)
NSVQ_FOR(c10::BFloat16, 4)

}  // namespace nsvq::group_norm_cuda
