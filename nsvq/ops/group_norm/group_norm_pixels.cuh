// A thread's pixels and channels (V adjacent channels, walking over pixels), and how it reads,
// normalises and differentiates them.
#pragma once

#include <type_traits>

#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/group_norm/group_norm_passes.h"

namespace nsvq::group_norm_cuda {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;

/// The pixels and channels of a thread: every `rows`-th of the pixels [first, last) of an image.
struct Place {
  int lane, lanes, row, rows, first, last, channel;
  int64_t image;
  bool idle;

  /// For block `block` of a plan's images and splits, with `vector` channels per thread.
  __device__ Place(const Shape& shape, const Plan& plan, int vector, int64_t block)
      : lane(threadIdx.x % plan.lanes),
        lanes(plan.lanes),
        row(threadIdx.x / lanes),
        rows(blockDim.x / lanes),
        first((block % plan.splits) * plan.pixels_per_split),
        last(min(first + plan.pixels_per_split, shape.pixels)),
        channel((blockIdx.y * lanes + lane) * vector),
        image(block / plan.splits),
        idle(row >= rows || channel >= shape.channels) {}

  /// Offset of the thread's vector in a tensor.
  __device__ int64_t offset(const Shape& shape, int pixel) const {
    return (image * shape.pixels + pixel) * shape.channels + channel;
  }

  /// Calls visit(n, pixel) for the thread's pixels in batches of n = kBatch, `rows` apart, and, at
  /// the end, of 1.
  template <int kBatch, typename Visit>
  __device__ void for_pixels(Visit visit) const {
    int pixel = first + row;
    for (; pixel + (kBatch - 1) * rows < last; pixel += kBatch * rows) {
      visit(std::integral_constant<int, kBatch>{}, pixel);
    }
    for (; pixel < last; pixel += rows) visit(std::integral_constant<int, 1>{}, pixel);
  }
};

/// What is added to V channels of an image. Nothing is added to channels of a skip.
template <typename T, int V>
struct Addend {
  bool any;
  int channels;       ///< number of them in the tensors that are added
  const T* other;     ///< at the first pixel, or null
  float constant[V];  ///< added at all pixels

  __device__ Addend(const Shape& shape, const Addition<T>& addition, const Place& place)
      : any(!place.idle && place.channel < shape.channels - addition.skip_channels),
        channels(shape.channels - addition.skip_channels),
        other(any && addition.other
                  ? addition.other + place.image * shape.pixels * channels + place.channel
                  : nullptr) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int channel = place.channel + v;
      constant[v] = any && addition.shift
                        ? static_cast<float>(addition.shift[place.image * channels + channel])
                        : 0.0f;
      if (any && addition.offset.data) constant[v] += addition.offset[channel];
    }
  }

  __device__ Pack<T, V> load_other(int pixel) const {
    return other ? load<V>(other + static_cast<int64_t>(pixel) * channels) : Pack<T, V>{};
  }

  __device__ Pack<T, V> sum(const Pack<T, V>& a, const Pack<T, V>& b) const {
    float x[V], y[V];
    unpack(a, x);
    unpack(b, y);
    Pack<T, V> sum;
#pragma unroll
    for (int v = 0; v < V; ++v) sum.values[v] = static_cast<T>(x[v] + y[v] + constant[v]);
    return sum;
  }
};

/// The block's number counted from the end: the second pass begins where the first ended, since
/// some of that is in the cache.
__device__ inline int64_t from_the_end() { return gridDim.x - 1 - blockIdx.x; }

/// Merges the statistics of a block's rows; row 0 gets the result. `table` has room for half of the
/// threads.
template <typename Found>
__device__ void merge_rows(Found& own, Found* table, const Place& place) {
  for (int active = place.rows; active > 1;) {
    const int half = (active + 1) / 2;
    if (place.row >= half && place.row < active) {
      table[(place.row - half) * place.lanes + place.lane] = own;
    }
    __syncthreads();
    if (place.row < active - half) own.merge(table[place.row * place.lanes + place.lane]);
    __syncthreads();
    active = half;
  }
}

/// Writes partials [images, splits, channels] from row 0, which has those of the whole block.
template <int V, typename Found>
__device__ void write_partials(const Shape& shape, const Place& place, const Found& found,
                               float2* partials) {
  if (place.idle || place.row > 0) return;
  auto* to = partials + static_cast<int64_t>(blockIdx.x) * shape.channels + place.channel;
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = found.of_channel(v);
}

/// What V channels are normalised with: (x - mean) * scale + shift.
template <int V>
struct Affine {
  float mean[V], scale[V], shift[V];

  template <typename T>
  __device__ Affine(const Shape& shape, const Tensors<T>& t, const Place& place) {
    const float* means = t.mean + place.image * shape.groups;
    const float* rstds = t.rstd + place.image * shape.groups;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int channel = place.channel + v, group = channel / shape.group_size();
      mean[v] = means[group];
      scale[v] = rstds[group] * t.weight[channel];
      shift[v] = t.bias[channel];
    }
  }

  /// For V channels of one group.
  template <typename T>
  __device__ Affine(const Tensors<T>& t, int channel, float group_mean, float rstd) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      mean[v] = group_mean;
      scale[v] = rstd * t.weight[channel + v];
      shift[v] = t.bias[channel + v];
    }
  }
};

/// sigmoid(u), without the care for numbers below 1e-38 that __expf and __fdividef take: it costs
/// as much as the rest.
__device__ inline float sigmoid(float u) {
  float e, s;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(u * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1 + e));
  return s;
}

template <typename T, int V>
__device__ Pack<T, V> normalise(const Pack<T, V>& x, const Affine<V>& affine, bool silu) {
  float values[V];
  unpack(x, values);
  Pack<T, V> y;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float u = (values[v] - affine.mean[v]) * affine.scale[v] + affine.shift[v];
    y.values[v] = static_cast<T>(silu ? u * sigmoid(u) : u);
  }
  return y;
}

/// x - mean, and the gradient du of what goes into SiLU.
template <typename T, int V>
__device__ void before_silu(const Pack<T, V>& x, const Pack<T, V>& dy, const Affine<V>& affine,
                            bool silu, float (&centred)[V], float (&du)[V]) {
  unpack(x, centred);
  unpack(dy, du);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    centred[v] -= affine.mean[v];
    if (!silu) continue;
    const float u = centred[v] * affine.scale[v] + affine.shift[v], s = sigmoid(u);
    du[v] *= s + u * s * (1 - s);
  }
}

}  // namespace nsvq::group_norm_cuda
