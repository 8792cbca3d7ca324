// Softmaxes of rows (soft_rows.h), a block a row: what the plain version does in tens of passes
// over the logits takes one forward and two backward.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/seeded_draws.h"

namespace nsvq {

namespace {

constexpr int kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;
constexpr float kLowest = -3e38f;

/// Logits [n, K] and their noise; `first` is the number of the first row.
struct Rows {
  const float* logits;
  int64_t codes;
  const int64_t* seed;  ///< or none
  int64_t first;

  /// Calls visit(code, logit, noise) for the thread's share of the block's row: fours of places,
  /// which share what one call of the engine gives.
  template <typename Visit>
  __device__ void each(Visit visit) const {
    const int64_t begin = (first + blockIdx.x) * codes, end = begin + codes;
    const float* own = logits + blockIdx.x * codes;
    for (int64_t four = begin / 4 + threadIdx.x; four * 4 < end; four += kThreads) {
      GumbelNoise noise(seed ? static_cast<uint64_t>(*seed) : 0, four * 4);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int64_t code = four * 4 + i - begin;
        const float drawn = seed ? noise.next() : 0.0f;
        if (code >= 0 && code < codes) visit(code, own[code], drawn);
      }
    }
  }
};

struct Largest {
  float value = kLowest;
  int64_t code = INT64_MAX;

  __device__ void merge(const Largest& other) {
    if (other.value > value || (other.value == value && other.code < code)) *this = other;
  }
  __device__ Largest from(int step) const {
    return {__shfl_xor_sync(~0u, value, step), __shfl_xor_sync(~0u, code, step)};
  }
};

/// sum e^(x - top) and sum e^(x - top) y over pairs, `top` the largest x.
struct Mass {
  float top = kLowest, sum = 0, moment = 0;

  __device__ void add(float x, float y) {
    if (x > top) {
      const float share = expf(top - x);
      sum *= share;
      moment *= share;
      top = x;
    }
    const float e = expf(x - top);
    sum += e;
    moment = fmaf(e, y, moment);
  }
  __device__ void merge(const Mass& other) {
    const float highest = fmaxf(top, other.top);
    const float own = expf(top - highest), theirs = expf(other.top - highest);
    sum = sum * own + other.sum * theirs;
    moment = moment * own + other.moment * theirs;
    top = highest;
  }
  __device__ Mass from(int step) const {
    return {__shfl_xor_sync(~0u, top, step), __shfl_xor_sync(~0u, sum, step),
            __shfl_xor_sync(~0u, moment, step)};
  }
};

/// Of the block's threads together, for each of them.
template <typename Part>
__device__ Part of_block(Part part) {
  __shared__ Part parts[kWarps];
  for (int step = kWarp / 2; step > 0; step /= 2) part.merge(part.from(step));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = part;
  __syncthreads();
  Part all = parts[0];
  for (int i = 1; i < kWarps; ++i) all.merge(parts[i]);
  return all;
}

__global__ void __launch_bounds__(kThreads)
    rows_kernel(Rows rows, int64_t* __restrict__ indices, float* __restrict__ entropies) {
  Largest largest;
  Mass mass;
  // Relative to one of them, a row's logits are small where they are many and large ones few.
  const float origin = rows.logits[blockIdx.x * rows.codes];
  rows.each([&](int64_t code, float logit, float noise) {
    largest.merge({logit + noise, code});
    mass.add(logit - origin, logit - origin);
  });
  largest = of_block(largest);
  mass = of_block(mass);
  if (threadIdx.x > 0) return;
  indices[blockIdx.x] = largest.code;
  entropies[blockIdx.x] = logf(mass.sum) + mass.top - mass.moment / mass.sum;
}

/// kPulled, kWeighted: which of the two terms there are.
template <bool kPulled, bool kWeighted>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(Rows rows, const float* __restrict__ temperature,
                    const float* __restrict__ pulls, const float* __restrict__ weight,
                    float* __restrict__ gradients) {
  const int64_t begin = blockIdx.x * rows.codes;
  const float sharpness = 1 / *temperature;
  Mass drawn, plain;
  rows.each([&](int64_t code, float logit, float noise) {
    if constexpr (kPulled) {
      const float x = (logit + noise) * sharpness;
      drawn.add(x, pulls[begin + code]);
      gradients[begin + code] = x;  // for the same thread below: cheaper than to draw again
    }
    if constexpr (kWeighted) plain.add(logit, 0);
  });
  if constexpr (kPulled) drawn = of_block(drawn);
  if constexpr (kWeighted) plain = of_block(plain);
  const float shift = kWeighted ? plain.top + logf(plain.sum) : 0;
  Mass entropy;  // of log p, so that small differences are kept
  if constexpr (kWeighted) {
    rows.each([&](int64_t, float logit, float) { entropy.add(logit - shift, logit - shift); });
    entropy = of_block(entropy);
  }
  const float mean = kWeighted ? entropy.moment / entropy.sum : 0;
  rows.each([&](int64_t code, float logit, float) {
    float sum = 0;
    if constexpr (kPulled) {
      const float p = expf(gradients[begin + code] - drawn.top) / drawn.sum;
      sum = p * (pulls[begin + code] - drawn.moment / drawn.sum) * sharpness;
    }
    if constexpr (kWeighted) {
      const float log_p = logit - shift;
      sum -= *weight * expf(log_p) * (log_p - mean);
    }
    gradients[begin + code] = sum;
  });
}

Rows rows_of(const at::Tensor& logits, const std::optional<at::Tensor>& seed, int64_t first) {
  TORCH_CHECK(logits.scalar_type() == at::kFloat && logits.dim() == 2 && logits.is_contiguous(),
              "soft_rows: logits must be fp32 [n, K] and contiguous, but they are ",
              logits.scalar_type(), " ", logits.sizes());
  return {logits.const_data_ptr<float>(), logits.size(1),
          seed ? seed->const_data_ptr<int64_t>() : nullptr, first};
}

std::tuple<at::Tensor, at::Tensor> soft_rows_cuda(const at::Tensor& logits,
                                                  const std::optional<at::Tensor>& seed,
                                                  int64_t first) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const Rows rows = rows_of(logits, seed, first);
  auto indices = at::empty({logits.size(0)}, logits.options().dtype(at::kLong));
  auto entropies = at::empty({logits.size(0)}, logits.options());
  if (logits.size(0) == 0) return {indices, entropies};
  rows_kernel<<<static_cast<unsigned>(logits.size(0)), kThreads, 0,
                at::cuda::getCurrentCUDAStream()>>>(rows, indices.mutable_data_ptr<int64_t>(),
                                                    entropies.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {indices, entropies};
}

at::Tensor soft_rows_gradient_cuda(const at::Tensor& logits, const std::optional<at::Tensor>& seed,
                                   int64_t first, const at::Tensor& temperature,
                                   const std::optional<at::Tensor>& pulls,
                                   const std::optional<at::Tensor>& weight) {
  const c10::cuda::CUDAGuard guard(logits.device());
  const Rows rows = rows_of(logits, seed, first);
  auto gradients = at::empty_like(logits);
  const auto warmth = temperature.to(at::kFloat);
  if (logits.size(0) == 0) return gradients;
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(logits.size(0)), kThreads, 0,
             at::cuda::getCurrentCUDAStream()>>>(
        rows, warmth.const_data_ptr<float>(), pulls ? pulls->const_data_ptr<float>() : nullptr,
        weight ? weight->const_data_ptr<float>() : nullptr, gradients.mutable_data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (pulls && weight) {
    launch(gradient_kernel<true, true>);
  } else if (pulls) {
    launch(gradient_kernel<true, false>);
  } else if (weight) {
    launch(gradient_kernel<false, true>);
  } else {
    gradients.zero_();
  }
  return gradients;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("soft_rows", soft_rows_cuda);
  m.impl("soft_rows_gradient", soft_rows_gradient_cuda);
}

}  // namespace nsvq
