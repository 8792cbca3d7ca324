// Cross-entropies of rows of bf16 logits and their gradients, a block per row, in fp32: one pass
// for the largest logit and the sum of exponentials, one that writes the gradient. What the second
// reads is still in the cache, since few rows are under way at a time.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>

#include "nsvq/ops/transformer/cross_entropy_rows.h"
#include "nsvq/ops/transformer/eights.cuh"
#include "nsvq/ops/transformer/fits.h"

namespace nsvq::transformer_cuda {

namespace {

using T = c10::BFloat16;

constexpr int kThreads = 1024, kWarps = kThreads / kWarp;
constexpr float kLowestTop = -3e38f, kLog2E = 1.44269504f;

/// sum 2^(x - top) over numbers x, `top` the largest.
struct PowerSum {
  float top, sum;

  __device__ void add(const PowerSum& other) {
    const float highest = fmaxf(top, other.top);
    sum = sum * exp2f(top - highest) + other.sum * exp2f(other.top - highest);
    top = highest;
  }
};

/// The sum over the block's threads, in each of them.
__device__ PowerSum of_block(PowerSum part) {
  __shared__ PowerSum parts[kWarps];
  const auto of_warp = [&] {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      part.add({__shfl_xor_sync(~0u, part.top, step), __shfl_xor_sync(~0u, part.sum, step)});
    }
  };
  of_warp();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = part;
  __syncthreads();
  part = parts[threadIdx.x % kWarp];  // as many warps as lanes
  of_warp();
  return part;
}
static_assert(kWarps == kWarp);

template <int V>
__device__ void load_logits(const T* from, float (&x)[V]) {
  vectors::unpack(vectors::load<V>(from), x);
#pragma unroll
  for (int v = 0; v < V; ++v) x[v] *= kLog2E;
}

/// V logits at a time, which divides `codes`.
template <int V>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(T* __restrict__ logits, const int64_t* __restrict__ targets,
                const float* __restrict__ factors, float* __restrict__ losses, int codes,
                bool gradient) {
  T* own = logits + static_cast<int64_t>(blockIdx.x) * codes;
  const int64_t target = targets[blockIdx.x];
  CUDA_KERNEL_ASSERT(target >= 0 && target < codes);
  const float at_target = static_cast<float>(own[target]);
  PowerSum all{kLowestTop, 0};
#pragma unroll 2
  for (int code = threadIdx.x * V; code < codes; code += kThreads * V) {
    float x[V];
    load_logits(own + code, x);
    float top = x[0], sum = 0;
#pragma unroll
    for (int v = 1; v < V; ++v) top = fmaxf(top, x[v]);
    if (top > all.top) {
      all.sum *= exp2f(all.top - top);
      all.top = top;
    }
#pragma unroll
    for (int v = 0; v < V; ++v) sum += exp2f(x[v] - all.top);
    all.sum += sum;
  }
  all = of_block(all);  // after which every thread has read the logit of the target
  const float shift = all.top + log2f(all.sum);
  if (threadIdx.x == 0) losses[blockIdx.x] = shift / kLog2E - at_target;
  if (!gradient) return;
  const float factor = factors ? factors[blockIdx.x] : 1.0f;
#pragma unroll 2
  for (int code = threadIdx.x * V; code < codes; code += kThreads * V) {
    float x[V];
    load_logits(own + code, x);
    vectors::Pack<T, V> pack;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float share = exp2f(x[v] - shift);
      pack.values[v] = static_cast<T>((code + v == target ? share - 1 : share) * factor);
    }
    vectors::store(pack, own + code);
  }
}

at::Tensor cross_entropy_rows_gpu(const at::Tensor& logits, const at::Tensor& targets,
                                  const std::optional<at::Tensor>& factors, bool gradient) {
  check_cross_entropy_rows(logits, targets, factors.value_or(at::Tensor()));
  TORCH_CHECK(logits.scalar_type() == at::kBFloat16 && logits.is_contiguous() &&
                  logits.size(1) < (int64_t{1} << 30),
              "cross_entropy_rows: logits must be bf16 and contiguous, but they are ",
              logits.scalar_type(), " ", logits.sizes());
  const c10::cuda::CUDAGuard guard(logits.device());
  auto losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  if (logits.size(0) == 0) return losses;
  const auto own = targets.contiguous();
  const auto scales = factors ? factors->to(at::kFloat).contiguous() : at::Tensor();
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(logits.size(0)), kThreads, 0,
             at::cuda::getCurrentCUDAStream()>>>(
        logits.mutable_data_ptr<T>(), own.const_data_ptr<int64_t>(),
        factors ? scales.const_data_ptr<float>() : nullptr, losses.mutable_data_ptr<float>(),
        static_cast<int>(logits.size(1)), gradient);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (in_eights(logits)) {
    launch(rows_kernel<kEight>);
  } else {
    launch(rows_kernel<1>);
  }
  return losses;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("cross_entropy_rows_", cross_entropy_rows_gpu); }

}  // namespace nsvq::transformer_cuda
