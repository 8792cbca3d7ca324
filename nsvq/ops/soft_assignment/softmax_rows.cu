// Softmaxes of rows (softmax_rows.h), a block per row: one pass forward and three backward, where
// the plain version makes tens of passes over the logits. A block reads again what is still in the
// cache, since few rows are under way at a time.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/random/seeded_random.h"
#include "nsvq/ops/soft_assignment/softmax_rows.cuh"

namespace nsvq {

namespace {

using namespace softmax_rows_cuda;

__global__ void __launch_bounds__(kThreads)
    rows_kernel(Rows rows, int64_t* __restrict__ indices, float* __restrict__ entropies) {
  auto largest = Largest::none();
  auto mass = Mass::none();
  // Relative to the row's first logit: the entropy is a difference of numbers as large as the
  // logits.
  const float origin = rows.logits[blockIdx.x * rows.codes];
  rows.each([&](int64_t code) {
    const Four logits = rows.of(rows.logits, code), noise = rows.noise(code);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!rows.has(code + i)) continue;
      largest.merge({logits.at[i] + noise.at[i], static_cast<int>(code + i)});
      mass.add(logits.at[i] - origin, logits.at[i] - origin);
    }
  });
  largest = of_block(largest);
  mass = of_block(mass);
  if (threadIdx.x > 0) return;
  indices[blockIdx.x] = largest.code == INT_MAX ? 0 : largest.code;  // where all are NaN
  entropies[blockIdx.x] = logf(mass.sum) + mass.top - mass.moment / mass.sum;
}

/// The gradient of the logits. kPulled, kWeighted: which of the two terms there are.
template <bool kPulled, bool kWeighted>
__global__ void __launch_bounds__(kThreads)
    gradient_kernel(Rows rows, const float* __restrict__ temperature,
                    const float* __restrict__ pulls, const float* __restrict__ weight,
                    float* __restrict__ gradients) {
  const float sharpness = 1 / *temperature;
  auto drawn = Mass::none(), plain = Mass::none();
  rows.each([&](int64_t code) {
    const Four logits = rows.of(rows.logits, code);
    Four noisy = kPulled ? rows.noise(code) : Four{}, pulled{};
    if constexpr (kPulled) pulled = rows.of(pulls, code);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!rows.has(code + i)) continue;
      noisy.at[i] = (logits.at[i] + noisy.at[i]) * sharpness;
      if constexpr (kPulled) drawn.add(noisy.at[i], pulled.at[i]);
      if constexpr (kWeighted) plain.add(logits.at[i], 0);
    }
    // Read by this thread below, which is cheaper than to draw again.
    if constexpr (kPulled) rows.put(noisy, gradients, code);
  });
  if constexpr (kPulled) drawn = of_block(drawn);
  if constexpr (kWeighted) plain = of_block(plain);
  const float shift = kWeighted ? plain.top + logf(plain.sum) : 0;
  auto entropy = Mass::none();  // of log p, so that small differences are kept
  if constexpr (kWeighted) {
    rows.each([&](int64_t code) {
      const Four logits = rows.of(rows.logits, code);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (rows.has(code + i)) entropy.add(logits.at[i] - shift, logits.at[i] - shift);
      }
    });
    entropy = of_block(entropy);
  }
  const float mean = kWeighted ? entropy.moment / entropy.sum : 0;
  rows.each([&](int64_t code) {
    Four sums{};
    if constexpr (kPulled) {
      const Four noisy = rows.of(gradients, code), pulled = rows.of(pulls, code);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = expf(noisy.at[i] - drawn.top) / drawn.sum;
        sums.at[i] = p * (pulled.at[i] - drawn.moment / drawn.sum) * sharpness;
      }
    }
    if constexpr (kWeighted) {
      const Four logits = rows.of(rows.logits, code);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float log_p = logits.at[i] - shift;
        sums.at[i] -= *weight * expf(log_p) * (log_p - mean);
      }
    }
    rows.put(sums, gradients, code);
  });
}

/// Numbers [n, K] that a kernel can read, or an error.
const float* matrix(const char* name, const at::Tensor& values, at::IntArrayRef sizes) {
  TORCH_CHECK(values.scalar_type() == at::kFloat && values.dim() == 2 && values.sizes() == sizes &&
                  values.is_contiguous(),
              "softmax_rows: ", name, " must be fp32 [n, K] and contiguous, but they are ",
              values.scalar_type(), " ", values.sizes());
  return values.const_data_ptr<float>();
}

bool in_fours(const float* values) { return reinterpret_cast<uintptr_t>(values) % 16 == 0; }

Rows rows_of(const at::Tensor& logits, const std::optional<at::Tensor>& seed, int64_t first) {
  const float* values = matrix("logits", logits, logits.sizes());
  TORCH_CHECK(logits.size(1) > 0 && logits.size(1) < INT_MAX, "softmax_rows: rows of ",
              logits.size(1), " logits");
  if (seed) check_seed("softmax_rows", *seed, logits.device());
  return {values, logits.size(1), seed ? seed->const_data_ptr<int64_t>() : nullptr, first,
          logits.size(1) % 4 == 0 && in_fours(values)};
}

std::tuple<at::Tensor, at::Tensor> softmax_rows_gpu(const at::Tensor& logits,
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

at::Tensor softmax_rows_backward_gpu(const at::Tensor& logits,
                                     const std::optional<at::Tensor>& seed, int64_t first,
                                     const at::Tensor& temperature,
                                     const std::optional<at::Tensor>& pulls,
                                     const std::optional<at::Tensor>& weight) {
  const c10::cuda::CUDAGuard guard(logits.device());
  Rows rows = rows_of(logits, seed, first);
  const float* pulled = pulls ? matrix("pulls", *pulls, logits.sizes()) : nullptr;
  rows.in_fours = rows.in_fours && in_fours(pulled);
  auto gradients = at::empty_like(logits);
  TORCH_CHECK(temperature.device() == logits.device(), "softmax_rows: the temperature must be on ",
              logits.device(), ", but it is on ", temperature.device());
  const auto rounded = temperature.to(at::kFloat);
  if (logits.size(0) == 0) return gradients;
  const auto launch = [&](auto kernel) {
    kernel<<<static_cast<unsigned>(logits.size(0)), kThreads, 0,
             at::cuda::getCurrentCUDAStream()>>>(rows, rounded.const_data_ptr<float>(), pulled,
                                                 weight ? weight->const_data_ptr<float>() : nullptr,
                                                 gradients.mutable_data_ptr<float>());
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
  m.impl("softmax_rows", softmax_rows_gpu);
  m.impl("softmax_rows_backward", softmax_rows_backward_gpu);
}

}  // namespace nsvq
