// Draws by the largest of logits and Gumbel noise: each block finds the largest of a part of a row,
// then a thread for each row compares the parts. Every sum and product is rounded as by the
// operators of which the plain version is made, so that the tokens are the same bit for bit.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/common/optional_tensor.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/random/philox.h"
#include "nsvq/ops/transformer/draw_tokens_inference.h"

namespace nsvq::draw_tokens_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using Key = unsigned long long;

constexpr int kThreads = 256, kWarp = 32, kVector = 8;
constexpr int64_t kCodesOfABlock = int64_t{kThreads} * kVector;

struct Arguments {
  const void* logits;
  const int64_t* seeds;
  const float *weight, *factor;  ///< null without
  const bool* wanted;            ///< null: all
  int64_t rows, codes, parts;
  float inverse;  ///< of the temperature
  bool aligned;   ///< packs of 8 logits can be read at once
};

/// Larger for larger sums, and for lower codes of equal ones; NaN is the largest. Never 0.
__device__ Key key_of(float sum, int64_t code) {
  const unsigned bits = __float_as_uint(__fadd_rn(sum, 0.0f));  // -0 becomes 0
  const unsigned ordered = isnan(sum) ? ~0u : bits ^ (bits >> 31 ? ~0u : 0x80000000u);
  return Key{ordered} << 32 | (0xffffffffu - static_cast<unsigned>(code));
}

__device__ int64_t code_of(Key key) { return 0xffffffffu - static_cast<unsigned>(key); }

__device__ float gumbel_at(uint64_t seed, int64_t code) {
  const float u = fmaxf(uniform_at(seed, 0, code), 0x1p-25f);
  return -logf(-logf(u));
}

template <typename T>
__device__ void read(const Arguments& a, int64_t row, int64_t first, float (&x)[kVector]) {
  const T* at = static_cast<const T*>(a.logits) + row * a.codes + first;
  if (a.aligned && first + kVector <= a.codes) {
    constexpr int kPack = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < kVector; i += kPack) {
      const auto pack = load<kPack>(at + i);
#pragma unroll
      for (int v = 0; v < kPack; ++v) x[i + v] = static_cast<float>(pack.values[v]);
    }
    return;
  }
#pragma unroll
  for (int v = 0; v < kVector; ++v) x[v] = first + v < a.codes ? static_cast<float>(at[v]) : 0.0f;
}

__device__ Key largest_of_block(Key key) {
  __shared__ Key keys[kThreads / kWarp];
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) {
    const Key other = __shfl_xor_sync(~0u, key, half);
    key = other > key ? other : key;
  }
  if (threadIdx.x % kWarp == 0) keys[threadIdx.x / kWarp] = key;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kThreads / kWarp; ++i) key = keys[i] > key ? keys[i] : key;
  return key;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) draw_parts(Arguments a, Key* __restrict__ keys) {
  const int64_t row = blockIdx.x / a.parts, part = blockIdx.x - row * a.parts;
  if (a.wanted && !a.wanted[row]) {
    if (threadIdx.x == 0) keys[blockIdx.x] = 0;
    return;
  }
  const auto seed = static_cast<uint64_t>(a.seeds[row]);
  const int64_t first = part * kCodesOfABlock + threadIdx.x * kVector;
  Key best = 0;
  if (first < a.codes) {
    float x[kVector];
    read<T>(a, row, first, x);
    if (a.weight) {
      const float weight = *a.weight;
      float without[kVector];
      read<T>(a, row + a.rows, first, without);
#pragma unroll
      for (int v = 0; v < kVector; ++v) {
        x[v] = __fadd_rn(without[v], __fmul_rn(weight, __fsub_rn(x[v], without[v])));
      }
    }
    const float factor = a.factor ? *a.factor : 1.0f;
#pragma unroll
    for (int v = 0; v < kVector; ++v) {
      const float logit = __fmul_rn(__fmul_rn(x[v], factor), a.inverse);
      const Key key = key_of(__fadd_rn(logit, gumbel_at(seed, first + v)), first + v);
      if (first + v < a.codes && key > best) best = key;
    }
  }
  best = largest_of_block(best);
  if (threadIdx.x == 0) keys[blockIdx.x] = best;
}

__global__ void __launch_bounds__(kThreads)
    largest_part(const Key* __restrict__ keys, int64_t rows, int64_t parts,
                 int64_t* __restrict__ tokens) {
  const int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (row >= rows) return;
  Key best = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const Key key = keys[row * parts + i];
    best = key > best ? key : best;
  }
  tokens[row] = best == 0 ? 0 : code_of(best);
}

using Kernel = void (*)(Arguments, Key*);

Kernel kernel_for(at::ScalarType type) {
  if (type == at::kFloat) return draw_parts<float>;
  return type == at::kHalf ? draw_parts<c10::Half> : draw_parts<c10::BFloat16>;
}

at::Tensor draw_tokens_cuda(const at::Tensor& given, const at::Tensor& seeds,
                            const OptionalTensor& weight, const OptionalTensor& factor,
                            double temperature, const OptionalTensor& wanted) {
  check_draw_tokens(given,
                    {seeds, tensor_of(weight), tensor_of(factor), temperature, tensor_of(wanted)});
  const c10::cuda::CUDAGuard guard(given.device());
  const int64_t rows = seeds.size(0), codes = given.size(1);
  auto tokens = at::empty({rows}, seeds.options());
  if (rows == 0) return tokens;
  const auto logits = given.contiguous(), starts = seeds.contiguous();
  const auto rows_wanted = wanted ? wanted->contiguous() : at::Tensor();
  const int64_t parts = divided(codes, kCodesOfABlock);
  const auto keys = at::empty({rows, parts}, seeds.options());
  auto* key = reinterpret_cast<Key*>(keys.mutable_data_ptr<int64_t>());
  const Arguments arguments{
      logits.const_data_ptr(),
      starts.const_data_ptr<int64_t>(),
      weight ? weight->const_data_ptr<float>() : nullptr,
      factor ? factor->const_data_ptr<float>() : nullptr,
      rows_wanted.defined() ? rows_wanted.const_data_ptr<bool>() : nullptr,
      rows,
      codes,
      parts,
      1.0f / static_cast<float>(temperature),  // by which at::div multiplies
      codes % kVector == 0 && reinterpret_cast<uintptr_t>(logits.const_data_ptr()) % 16 == 0};
  const auto stream = at::cuda::getCurrentCUDAStream();
  kernel_for(logits.scalar_type())<<<static_cast<unsigned>(rows * parts), kThreads, 0, stream>>>(
      arguments, key);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  largest_part<<<static_cast<unsigned>(divided(rows, kThreads)), kThreads, 0, stream>>>(
      key, rows, parts, tokens.mutable_data_ptr<int64_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return tokens;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("draw_tokens_inference", draw_tokens_cuda); }

}  // namespace nsvq::draw_tokens_cuda
