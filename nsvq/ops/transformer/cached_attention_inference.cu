// One query of each head over a cache: a block for each head of each sequence. Lanes hold 8
// channels of a vector, so that a warp looks at several keys at once; each keeps a running softmax,
// and all are joined in the end in a fixed order.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/optional_tensor.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/transformer/cached_attention_inference.h"

namespace nsvq::cached_attention_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;
using Value = c10::BFloat16;

constexpr int kVector = 8, kWarp = 32, kMostWarps = 16, kMostWidth = 128;
constexpr int kBatch = 2;  // keys that a lane reads at a time
constexpr float kLog2e = 1.44269504f;

struct HeadScale {
  const float *weight, *bias;
};

struct Arguments {
  const Value* qkv;
  Value *keys, *values;
  const int64_t* place;
  const float* rotation;  ///< null without; cosine and sine of each pair
  HeadScale query, key;
  HeadNorm norm;
  float eps;
  Value* output;
  int heads, width;
  int64_t positions;
};

/// The sum over the `kLanes` lanes that share a vector.
template <int kLanes>
__device__ float sum_of_lanes(float x) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) x += __shfl_xor_sync(~0u, x, half);
  return x;
}

/// Normalises and turns a query or a key; lanes beyond the head's width hold zeros and keep them.
template <int kLanes>
__device__ void prepare(const Arguments& a, const HeadScale& scale, int channel, bool held,
                        float (&x)[kVector]) {
  if (a.norm != HeadNorm::none) {
    const float share = 1.0f / static_cast<float>(a.width);
    float sum = 0, squares = 0;
    for (const float one : x) sum += one;
    const float mean = a.norm == HeadNorm::layer ? sum_of_lanes<kLanes>(sum) * share : 0.0f;
    for (float& one : x) {
      one = held ? one - mean : 0.0f;
      squares = fmaf(one, one, squares);
    }
    const float factor = rsqrtf(sum_of_lanes<kLanes>(squares) * share + a.eps);
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      x[v] *= factor;
      if (held && scale.weight) x[v] *= scale.weight[channel + v];
      if (held && scale.bias) x[v] += scale.bias[channel + v];
    }
  }
  if (!a.rotation || !held) return;
#pragma unroll
  for (int v = 0; v < kVector; v += 2) {
    const float cosine = a.rotation[channel + v], sine = a.rotation[channel + v + 1];
    const float even = x[v], odd = x[v + 1];
    x[v] = even * cosine - odd * sine;
    x[v + 1] = even * sine + odd * cosine;
  }
}

/// A running softmax over some keys: exponentials of base 2 below the largest score.
struct Mixture {
  float best = -INFINITY, sum = 0, mixed[kVector] = {};

  /// Scales by a new largest score; returns what exponents are taken from.
  __device__ float raise(float top) {
    const float base = top == -INFINITY ? 0.0f : top, keep = exp2f(best - base);
    sum *= keep;
    for (float& one : mixed) one *= keep;
    best = top;
    return base;
  }
};

template <int kLanes>
__device__ float score_of(const float (&query)[kVector], const float (&key)[kVector]) {
  float score = 0;
#pragma unroll
  for (int v = 0; v < kVector; ++v) score = fmaf(query[v], key[v], score);
  return sum_of_lanes<kLanes>(score);
}

/// Puts the new key and value at their place. The key's score is of the rounded numbers, as later.
template <int kLanes>
__device__ void begin_with_new(const Arguments& a, const Value* token,
                               const float (&query)[kVector], int channel, bool held, bool first,
                               Value* key_at, Value* value_at, Mixture& mixture) {
  const int64_t inner = int64_t{a.heads} * a.width;
  float key[kVector] = {}, value[kVector] = {};
  Pack<Value, kVector> rounded, values;
  if (held) unpack(load<kVector>(token + inner), key);
  prepare<kLanes>(a, a.key, channel, held, key);
#pragma unroll
  for (int v = 0; v < kVector; ++v) rounded.values[v] = static_cast<Value>(key[v]);
  unpack(rounded, key);
  if (held) {
    values = load<kVector>(token + 2 * inner);
    unpack(values, value);
  }
  const float score = score_of<kLanes>(query, key);
  if (!first) return;
  if (held) {
    store(rounded, key_at);
    store(values, value_at);
  }
  mixture.best = score;
  mixture.sum = 1;
#pragma unroll
  for (int v = 0; v < kVector; ++v) mixture.mixed[v] = value[v];
}

template <int kLanes>
__global__ void __launch_bounds__(kMostWarps* kWarp) attention(Arguments a) {
  constexpr int kGroups = kWarp / kLanes;  // keys that a warp looks at together
  const int warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int group = lane / kLanes, channel = lane % kLanes * kVector;
  const bool held = channel < a.width;
  const int64_t sequence = blockIdx.x / a.heads, head = blockIdx.x % a.heads;
  const int64_t place = *a.place;
  CUDA_KERNEL_ASSERT(place >= 0 && place < a.positions);
  const Value* token = a.qkv + (sequence * 3 * a.heads + head) * a.width + channel;
  const int64_t start = blockIdx.x * a.positions * a.width + channel;
  Value *keys = a.keys + start, *values = a.values + start;

  float query[kVector] = {};
  if (held) unpack(load<kVector>(token), query);
  prepare<kLanes>(a, a.query, channel, held, query);
  const float scale = kLog2e * rsqrtf(static_cast<float>(a.width));
  for (float& one : query) one *= scale;

  Mixture mixture;
  if (warp == 0) {
    begin_with_new<kLanes>(a, token, query, channel, held, group == 0, keys + place * a.width,
                           values + place * a.width, mixture);
  }
  const int64_t step = int64_t{warps} * kGroups;
  for (int64_t first = int64_t{warp} * kGroups; first < place; first += kBatch * step) {
    Pack<Value, kVector> key[kBatch] = {}, value[kBatch] = {};
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int64_t at = first + u * step + group;
      if (!held || at >= place) continue;
      key[u] = load<kVector>(keys + at * a.width);
      value[u] = load<kVector>(values + at * a.width);
    }
    float score[kBatch], top = mixture.best;
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      float numbers[kVector];
      unpack(key[u], numbers);
      const float own = score_of<kLanes>(query, numbers);
      score[u] = first + u * step + group < place ? own : -INFINITY;
      top = fmaxf(top, score[u]);
    }
    const float base = mixture.raise(top);
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      float numbers[kVector];
      unpack(value[u], numbers);
      const float share = exp2f(score[u] - base);
      mixture.sum += share;
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        mixture.mixed[v] = fmaf(share, numbers[v], mixture.mixed[v]);
      }
    }
  }
#pragma unroll
  for (int half = kLanes; half < kWarp; half *= 2) {
    mixture.raise(fmaxf(mixture.best, __shfl_xor_sync(~0u, mixture.best, half)));
    mixture.sum += __shfl_xor_sync(~0u, mixture.sum, half);
    for (float& one : mixture.mixed) one += __shfl_xor_sync(~0u, one, half);
  }

  __shared__ float mixed[kMostWarps][kMostWidth], best[kMostWarps], sums[kMostWarps];
  if (group == 0) {
    best[warp] = mixture.best;
    sums[warp] = mixture.sum;
#pragma unroll
    for (int v = 0; v < kVector; ++v) mixed[warp][channel + v] = mixture.mixed[v];
  }
  __syncthreads();
  const int out = threadIdx.x;
  if (out >= a.width) return;
  float top = best[0], sum = 0, result = 0;
  for (int w = 1; w < warps; ++w) top = fmaxf(top, best[w]);
  for (int w = 0; w < warps; ++w) {
    const float share = exp2f(best[w] - top);
    sum = fmaf(share, sums[w], sum);
    result = fmaf(share, mixed[w][out], result);
  }
  a.output[blockIdx.x * int64_t{a.width} + out] = static_cast<Value>(result / sum);
}

using Kernel = void (*)(Arguments);

/// Lanes of a vector: as many packs as it has, up to a power of 2.
Kernel kernel_for(int64_t width) {
  const int64_t packs = width / kVector;
  if (packs <= 1) return attention<1>;
  if (packs <= 2) return attention<2>;
  if (packs <= 4) return attention<4>;
  return packs <= 8 ? attention<8> : attention<16>;
}

const float* floats(const OptionalTensor& x) { return x ? x->const_data_ptr<float>() : nullptr; }

at::Tensor cached_attention_cuda(const at::Tensor& qkv, const at::Tensor& keys,
                                 const at::Tensor& values, const at::Tensor& place,
                                 const OptionalTensor& rotation, const OptionalTensor& query_weight,
                                 const OptionalTensor& query_bias, const OptionalTensor& key_weight,
                                 const OptionalTensor& key_bias, int64_t norm, double eps) {
  const auto kind = static_cast<HeadNorm>(norm);
  check_cached_attention(qkv, keys, values, place, tensor_of(rotation),
                         {kind, eps, tensor_of(query_weight), tensor_of(query_bias),
                          tensor_of(key_weight), tensor_of(key_bias)});
  const c10::cuda::CUDAGuard guard(qkv.device());
  const int64_t heads = keys.size(1), width = keys.size(3), blocks = keys.size(0) * heads;
  auto output = at::empty({qkv.size(0), heads * width}, qkv.options());
  if (blocks == 0) return output;
  const auto* turns = rotation ? static_cast<const float*>(rotation->const_data_ptr()) : nullptr;
  const Arguments arguments{qkv.const_data_ptr<Value>(),
                            keys.mutable_data_ptr<Value>(),
                            values.mutable_data_ptr<Value>(),
                            place.const_data_ptr<int64_t>(),
                            turns,
                            {floats(query_weight), floats(query_bias)},
                            {floats(key_weight), floats(key_bias)},
                            kind,
                            static_cast<float>(eps),
                            output.mutable_data_ptr<Value>(),
                            static_cast<int>(heads),
                            static_cast<int>(width),
                            keys.size(2)};
  // Few heads: more warps share the keys of each.
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int warps = blocks >= 4 * processors ? kMostWarps / 4 : kMostWarps;
  kernel_for(
      width)<<<static_cast<unsigned>(blocks), warps * kWarp, 0, at::cuda::getCurrentCUDAStream()>>>(
      arguments);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return output;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("cached_attention_inference", cached_attention_cuda); }

}  // namespace nsvq::cached_attention_cuda
