// Rotary positions of queries and keys where they lie, and the way back from the gradients of
// attention to that of qkv, eight channels (four pairs) a thread.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/complex.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/transformer/eights.cuh"
#include "nsvq/ops/transformer/fits.h"
#include "nsvq/ops/transformer/turn_heads.h"

namespace nsvq::transformer_cuda {

namespace {

using T = c10::BFloat16;

constexpr int kTurnThreads = 256;

/// Sizes of qkv [B, tokens, 3, heads, 8 eights].
struct HeadSizes {
  unsigned tokens, heads, eights;
};

/// Eight channels of qkv, by their number among those of a token's `parts` parts.
struct HeadPlace {
  unsigned image, token, part, head, eight;

  __device__ HeadPlace(unsigned number, unsigned parts, const HeadSizes& sizes) {
    eight = number % sizes.eights;
    number /= sizes.eights;
    head = number % sizes.heads;
    number /= sizes.heads;
    part = number % parts;
    number /= parts;
    token = number % sizes.tokens;
    image = number / sizes.tokens;
  }

  /// The index of the first of them in qkv.
  __device__ int64_t in_qkv(const HeadSizes& sizes) const {
    const int64_t row = (static_cast<int64_t>(image) * sizes.tokens + token) * 3 + part;
    return ((row * sizes.heads + head) * sizes.eights + eight) * kEight;
  }
};

/// Turns four pairs by the numbers of `rotation` [tokens, 4 eights, 2]; `way` -1: back.
__device__ void turn(Eight& x, const float* rotation, const HeadPlace& place,
                     const HeadSizes& sizes, float way) {
  const int64_t first = static_cast<int64_t>(place.token) * sizes.eights + place.eight;
  const Eight by = load_eight(rotation + first * kEight);
#pragma unroll
  for (int v = 0; v < kEight; v += 2) {
    const float a = x.at[v], b = x.at[v + 1], c = by.at[v], s = way * by.at[v + 1];
    x.at[v] = a * c - b * s;
    x.at[v + 1] = a * s + b * c;
  }
}

__global__ void __launch_bounds__(kTurnThreads)
    turn_kernel(T* __restrict__ qkv, const float* __restrict__ rotation, HeadSizes sizes,
                unsigned count) {
  const unsigned number = blockIdx.x * kTurnThreads + threadIdx.x;
  if (number >= count) return;
  const HeadPlace place(number, 2, sizes);
  T* own = qkv + place.in_qkv(sizes);
  Eight x = load_eight(own);
  turn(x, rotation, place, sizes, 1);
  store_eight(x, own);
}

/// A tensor [B, heads, T, head width] whose channels are adjacent.
struct HeadGradient {
  const T* data;
  int64_t image, head, token;  ///< steps

  __device__ Eight at(const HeadPlace& place) const {
    return load_eight(data + place.image * image + place.head * head + place.token * token +
                      place.eight * kEight);
  }
};

__global__ void __launch_bounds__(kTurnThreads)
    join_kernel(HeadGradient query, HeadGradient key, HeadGradient value,
                const float* __restrict__ rotation, T* __restrict__ qkv, HeadSizes sizes,
                unsigned count) {
  const unsigned number = blockIdx.x * kTurnThreads + threadIdx.x;
  if (number >= count) return;
  const HeadPlace place(number, 3, sizes);
  Eight x = place.part == 0 ? query.at(place) : place.part == 1 ? key.at(place) : value.at(place);
  if (place.part < 2) turn(x, rotation, place, sizes, -1);
  store_eight(x, qkv + place.in_qkv(sizes));
}

unsigned turn_blocks(int64_t count) { return static_cast<unsigned>(divided(count, kTurnThreads)); }

HeadSizes sizes_of(int64_t tokens, int64_t heads, int64_t channels) {
  return {static_cast<unsigned>(tokens), static_cast<unsigned>(heads),
          static_cast<unsigned>(channels / kEight)};
}

/// Complex numbers as pairs of floats.
const float* numbers_of(const at::Tensor& rotation) {
  return reinterpret_cast<const float*>(rotation.const_data_ptr<c10::complex<float>>());
}

void turn_heads_gpu(const at::Tensor& qkv, const at::Tensor& rotation) {
  check_turn_heads(qkv, rotation);
  const auto reason = turn_heads_unavailable_reason(qkv, rotation);
  TORCH_CHECK(reason.empty(), "turn_heads: ", reason);
  if (qkv.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(qkv.device());
  const int64_t count = qkv.numel() / 3 * 2 / kEight;
  turn_kernel<<<turn_blocks(count), kTurnThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      qkv.mutable_data_ptr<T>(), numbers_of(rotation),
      sizes_of(qkv.size(1), qkv.size(3), qkv.size(4)), static_cast<unsigned>(count));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

/// What the kernel reads: adjacent channels, eights at multiples of 16 bytes.
at::Tensor readable(const at::Tensor& x) {
  bool fits = x.stride(3) == 1 && reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
  for (int64_t i = 0; i < 3; ++i) fits = fits && (x.stride(i) % kEight == 0 || x.size(i) == 1);
  return fits ? x : x.contiguous();
}

at::Tensor join_heads_gpu(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& rotation) {
  check_join_heads({query, key, value}, rotation);
  const int64_t images = query.size(0), heads = query.size(1), tokens = query.size(2),
                channels = query.size(3);
  auto qkv = at::empty({images, tokens, 3, heads, channels}, query.options());
  const auto reason = turn_heads_unavailable_reason(qkv, rotation);
  TORCH_CHECK(reason.empty(), "join_heads: ", reason);
  if (qkv.numel() == 0) return qkv;
  const c10::cuda::CUDAGuard guard(qkv.device());
  const auto q = readable(query), k = readable(key), v = readable(value);
  const auto gradient = [](const at::Tensor& x) {
    return HeadGradient{x.const_data_ptr<T>(), x.stride(0), x.stride(1), x.stride(2)};
  };
  const int64_t count = qkv.numel() / kEight;
  join_kernel<<<turn_blocks(count), kTurnThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      gradient(q), gradient(k), gradient(v), numbers_of(rotation), qkv.mutable_data_ptr<T>(),
      sizes_of(tokens, heads, channels), static_cast<unsigned>(count));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return qkv;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("turn_heads_", turn_heads_gpu);
  m.impl("join_heads", join_heads_gpu);
}

}  // namespace nsvq::transformer_cuda
