// Norms over rows: a block for each row, 8 adjacent channels a thread, which stay in registers.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/common/optional_tensor.h"
#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/transformer/norms_inference.h"

namespace nsvq::norms_inference_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;
using Value = c10::BFloat16;

constexpr int kVector = 8, kWarp = 32, kMostThreads = 1024;

/// The sum over the block, the same in all threads; in a fixed order.
__device__ float block_sum(float x) {
  __shared__ float parts[kMostThreads / kWarp];
#pragma unroll
  for (int half = kWarp / 2; half > 0; half /= 2) x += __shfl_xor_sync(~0u, x, half);
  const int warps = blockDim.x / kWarp;
  __syncthreads();  // an earlier sum may still be read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i) sum += parts[i];
  return sum;
}

/// Rows [B, T or 1, C] of fp32 or bf16; null where there are none.
struct Rows {
  const void* data = nullptr;
  int64_t of_sequence = 0, of_token = 0;  ///< distances in numbers
  bool fp32 = false;
};

__device__ void load_floats(const float* from, float (&x)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; i += 4) {
    const auto pack = load<4>(from + i);
#pragma unroll
    for (int v = 0; v < 4; ++v) x[i + v] = pack.values[v];
  }
}

__device__ void load_row(const Rows& rows, int64_t sequence, int64_t token, int channel,
                         float (&x)[kVector]) {
  const int64_t at = sequence * rows.of_sequence + token * rows.of_token + channel;
  if (rows.fp32) {
    load_floats(static_cast<const float*>(rows.data) + at, x);
  } else {
    unpack(load<kVector>(static_cast<const Value*>(rows.data) + at), x);
  }
}

__device__ void store_values(const float (&x)[kVector], Value* to) {
  Pack<Value, kVector> pack;
#pragma unroll
  for (int v = 0; v < kVector; ++v) pack.values[v] = static_cast<Value>(x[v]);
  store(pack, to);
}

struct Arguments {
  const float* x;
  Rows branch, gate, shift, scale;
  const float *weight, *bias;  ///< null without
  float* sum;
  Value* normed;
  int64_t tokens;
  int channels;
  bool layer;
  float eps;
};

/// x + gate branch, which is written if there is a branch.
__device__ void add_branch(const Arguments& a, int64_t sequence, int64_t token, int channel,
                           int64_t at, float (&x)[kVector]) {
  load_floats(a.x + at, x);
  if (!a.branch.data) return;
  float branch[kVector];
  load_row(a.branch, sequence, token, channel, branch);
  if (a.gate.data) {
    float gate[kVector];
    load_row(a.gate, sequence, token, channel, gate);
#pragma unroll
    for (int v = 0; v < kVector; ++v) branch[v] *= gate[v];
  }
  Pack<float, 4> packs[2];
#pragma unroll
  for (int v = 0; v < kVector; ++v) packs[v / 4].values[v % 4] = x[v] = x[v] + branch[v];
  store(packs[0], a.sum + at);
  store(packs[1], a.sum + at + 4);
}

__global__ void __launch_bounds__(kMostThreads) residual_norm(Arguments a) {
  const int channel = threadIdx.x * kVector;
  const bool held = channel < a.channels;
  const int64_t sequence = blockIdx.x / a.tokens, token = blockIdx.x % a.tokens;
  const int64_t at = int64_t{blockIdx.x} * a.channels + channel;
  float x[kVector] = {};
  if (held) add_branch(a, sequence, token, channel, at, x);
  const float share = 1.0f / static_cast<float>(a.channels);
  if (a.layer) {
    float sum = 0;
    for (const float one : x) sum += one;
    const float mean = block_sum(sum) * share;
    for (float& one : x) one = held ? one - mean : 0.0f;
  }
  float squares = 0;
  for (const float one : x) squares = fmaf(one, one, squares);
  const float factor = rsqrtf(block_sum(squares) * share + a.eps);
  if (!held) return;
#pragma unroll
  for (int v = 0; v < kVector; ++v) {
    x[v] *= factor;
    if (a.weight) x[v] *= a.weight[channel + v];
    if (a.bias) x[v] += a.bias[channel + v];
  }
  if (a.scale.data) {
    float scale[kVector], shift[kVector];
    load_row(a.scale, sequence, token, channel, scale);
    load_row(a.shift, sequence, token, channel, shift);
#pragma unroll
    for (int v = 0; v < kVector; ++v) x[v] = fmaf(x[v], 1 + scale[v], shift[v]);
  }
  store_values(x, a.normed + at);
}

/// A block for the queries of a row, the next for its keys.
__global__ void __launch_bounds__(kMostThreads)
    query_key_norm(Value* qkv, int channels, float eps) {
  const int channel = threadIdx.x * kVector;
  const bool held = channel < channels;
  Value* at = qkv + (int64_t{blockIdx.x / 2} * 3 + blockIdx.x % 2) * channels + channel;
  float x[kVector] = {}, squares = 0;
  if (held) unpack(load<kVector>(at), x);
  for (const float one : x) squares = fmaf(one, one, squares);
  const float factor = rsqrtf(block_sum(squares) / static_cast<float>(channels) + eps);
  if (!held) return;
  for (float& one : x) one *= factor;
  store_values(x, at);
}

unsigned threads_for(int64_t channels) {
  return static_cast<unsigned>(divided(divided(channels, kVector), kWarp) * kWarp);
}

Rows rows_of(const OptionalTensor& x) {
  if (!x) return {};
  const bool one = x->size(1) == 1;
  return {x->const_data_ptr(), x->stride(0), one ? 0 : x->stride(1),
          x->scalar_type() == at::kFloat};
}

const float* floats(const OptionalTensor& x) { return x ? x->const_data_ptr<float>() : nullptr; }

std::tuple<at::Tensor, at::Tensor> residual_norm_cuda(
    const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& gate,
    const OptionalTensor& shift, const OptionalTensor& scale, const OptionalTensor& weight,
    const OptionalTensor& bias, bool layer, double eps) {
  check_residual_norm(x, {tensor_of(branch), tensor_of(gate), tensor_of(shift), tensor_of(scale)},
                      {layer, eps, tensor_of(weight), tensor_of(bias)});
  const c10::cuda::CUDAGuard guard(x.device());
  auto sum = branch ? at::empty_like(x) : at::empty({0}, x.options());
  auto normed = at::empty_like(x, x.options().dtype(at::kBFloat16));
  if (x.numel() == 0) return {sum, normed};
  const int64_t channels = x.size(2);
  const Arguments arguments{x.const_data_ptr<float>(),
                            rows_of(branch),
                            rows_of(gate),
                            rows_of(shift),
                            rows_of(scale),
                            floats(weight),
                            floats(bias),
                            sum.mutable_data_ptr<float>(),
                            normed.mutable_data_ptr<Value>(),
                            x.size(1),
                            static_cast<int>(channels),
                            layer,
                            static_cast<float>(eps)};
  residual_norm<<<static_cast<unsigned>(x.numel() / channels), threads_for(channels), 0,
                  at::cuda::getCurrentCUDAStream()>>>(arguments);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {sum, normed};
}

void query_key_norm_cuda(const at::Tensor& qkv, double eps) {
  check_query_key_norm(qkv);
  if (qkv.numel() == 0) return;
  const c10::cuda::CUDAGuard guard(qkv.device());
  const int64_t channels = qkv.size(-1) / 3, rows = qkv.numel() / qkv.size(-1);
  query_key_norm<<<static_cast<unsigned>(2 * rows), threads_for(channels), 0,
                   at::cuda::getCurrentCUDAStream()>>>(
      qkv.mutable_data_ptr<Value>(), static_cast<int>(channels), static_cast<float>(eps));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("residual_norm_inference", residual_norm_cuda);
  m.impl("query_key_norm_inference_", query_key_norm_cuda);
}

}  // namespace nsvq::norms_inference_cuda
