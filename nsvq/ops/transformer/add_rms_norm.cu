// A sum and its RMSNorm, a warp for a row, whose numbers stay in registers. Backward, a warp has
// several rows and adds up the weight's gradient over them; the warps' sums are added up after
// that, in an order that does not vary.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <type_traits>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/transformer/add_rms_norm.h"
#include "nsvq/ops/transformer/eights.cuh"
#include "nsvq/ops/transformer/fits.h"

namespace nsvq::transformer_cuda {

namespace {

using T = c10::BFloat16;
using MaybeTensor = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

constexpr int kThreads = 128, kWarps = kThreads / kWarp;
constexpr int kBlocksOfAProcessor = 5;

/// Rows of 8 `eights` numbers.
struct NormForward {
  const float* x;
  const T* values;      ///< null: none
  const uint8_t* kept;  ///< null: all
  float factor;         ///< on values that are kept
  const float* weight;
  float eps;
  int64_t rows;
  int eights;
  float* sum;
  T* output;
  float* rstd;
};

/// A thread has up to P eights of its warp's row, 32 apart.
template <int P>
__global__ void __launch_bounds__(kThreads) norm_forward(NormForward f) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= f.rows) return;
  const int64_t first = row * f.eights;
  Eight x[P];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < P; ++i) {
    const int place = lane + i * kWarp;
    if (place < f.eights) {
      const int64_t at = first + place;
      x[i] = load_eight(f.x + at * kEight);
      if (f.values) {
        const Eight more = load_eight(f.values + at * kEight);
        const unsigned kept = f.kept ? f.kept[at] : 0xffu;
#pragma unroll
        for (int v = 0; v < kEight; ++v) {
          x[i].at[v] += (kept >> v & 1u) ? more.at[v] * f.factor : 0.0f;
        }
        store_eight(x[i], f.sum + at * kEight);
      }
#pragma unroll
      for (int v = 0; v < kEight; ++v) squares = fmaf(x[i].at[v], x[i].at[v], squares);
    }
  }
  const float mean = warp_sum(squares) / static_cast<float>(f.eights * kEight);
  const float rstd = rsqrtf(mean + f.eps);
  if (lane == 0) f.rstd[row] = rstd;
#pragma unroll
  for (int i = 0; i < P; ++i) {
    const int place = lane + i * kWarp;
    if (place < f.eights) {
      const Eight weight = load_eight(f.weight + place * kEight);
#pragma unroll
      for (int v = 0; v < kEight; ++v) x[i].at[v] *= rstd * weight.at[v];
      store_eight(x[i], f.output + (first + place) * kEight);
    }
  }
}

struct NormBackward {
  const T* gradient;
  const float* of_sum;  ///< null: none
  const float* sum;
  const float* rstd;
  const float* weight;
  const uint8_t* kept;  ///< null: all
  float factor;
  int64_t rows;
  int eights;
  float* of_x;
  T* of_values;      ///< null: none
  float* of_weight;  ///< [warps, 8 eights]
};

template <int P>
__global__ void __launch_bounds__(kThreads) norm_backward(NormBackward b) {
  const int lane = threadIdx.x % kWarp;
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  Eight of_weight[P] = {};
  for (int64_t row = warp; row < b.rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t first = row * b.eights;
    const float rstd = b.rstd[row];
    Eight x[P], g[P];  // normalised numbers, and gradients by them
    float products = 0;
#pragma unroll
    for (int i = 0; i < P; ++i) {
      const int place = lane + i * kWarp;
      if (place < b.eights) {
        x[i] = load_eight(b.sum + (first + place) * kEight);
        g[i] = load_eight(b.gradient + (first + place) * kEight);
        const Eight weight = load_eight(b.weight + place * kEight);
#pragma unroll
        for (int v = 0; v < kEight; ++v) {
          x[i].at[v] *= rstd;
          of_weight[i].at[v] = fmaf(g[i].at[v], x[i].at[v], of_weight[i].at[v]);
          g[i].at[v] *= weight.at[v];
          products = fmaf(g[i].at[v], x[i].at[v], products);
        }
      }
    }
    const float mean = warp_sum(products) / static_cast<float>(b.eights * kEight);
#pragma unroll
    for (int i = 0; i < P; ++i) {
      const int place = lane + i * kWarp;
      if (place < b.eights) {
        const int64_t at = first + place;
        Eight of_x = {};
        if (b.of_sum) of_x = load_eight(b.of_sum + at * kEight);
#pragma unroll
        for (int v = 0; v < kEight; ++v) {
          of_x.at[v] += rstd * (g[i].at[v] - x[i].at[v] * mean);
        }
        store_eight(of_x, b.of_x + at * kEight);
        if (b.of_values) {
          const unsigned kept = b.kept ? b.kept[at] : 0xffu;
#pragma unroll
          for (int v = 0; v < kEight; ++v) {
            of_x.at[v] = (kept >> v & 1u) ? of_x.at[v] * b.factor : 0.0f;
          }
          store_eight(of_x, b.of_values + at * kEight);
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < P; ++i) {
    const int place = lane + i * kWarp;
    if (place < b.eights)
      store_eight(of_weight[i], b.of_weight + (warp * b.eights + place) * kEight);
  }
}

/// launch(P) for rows of so many eights.
template <typename Launch>
void for_eights(int64_t eights, Launch launch) {
  switch (divided(eights, kWarp)) {
    case 1:
      return launch(std::integral_constant<int, 1>());
    case 2:
      return launch(std::integral_constant<int, 2>());
    case 3:
      return launch(std::integral_constant<int, 3>());
    case 4:
      return launch(std::integral_constant<int, 4>());
    case 5:
      return launch(std::integral_constant<int, 5>());
    case 6:
      return launch(std::integral_constant<int, 6>());
    default:
      return launch(std::integral_constant<int, 8>());
  }
}

void check_fits(const at::Tensor& x, const at::Tensor& values, const at::Tensor& weight) {
  const auto reason = add_rms_norm_unavailable_reason(x, values, weight);
  TORCH_CHECK(reason.empty(), "add_rms_norm: ", reason);
}

float kept_factor(bool drops, double dropped) {
  return drops ? static_cast<float>(1 / (1 - dropped)) : 1.0f;
}

ThreeTensors add_rms_norm_gpu(const at::Tensor& x, const MaybeTensor& values,
                              const MaybeTensor& kept, double dropped, const at::Tensor& weight,
                              double eps) {
  const Branch branch{values.value_or(at::Tensor()), kept.value_or(at::Tensor()), dropped};
  check_add_rms_norm(x, branch, weight);
  check_fits(x, branch.values, weight);
  const c10::cuda::CUDAGuard guard(x.device());
  auto sum = values ? at::empty_like(x) : at::empty({0}, x.options());
  auto output = at::empty(x.sizes(), x.options().dtype(at::kBFloat16));
  auto rstd = at::empty(x.sizes().slice(0, x.dim() - 1), x.options());
  if (x.numel() == 0) return {sum, output, rstd.zero_()};
  const NormForward f{.x = x.const_data_ptr<float>(),
                      .values = values ? values->const_data_ptr<T>() : nullptr,
                      .kept = kept ? kept->const_data_ptr<uint8_t>() : nullptr,
                      .factor = kept_factor(kept.has_value(), dropped),
                      .weight = weight.const_data_ptr<float>(),
                      .eps = static_cast<float>(eps),
                      .rows = x.numel() / x.size(-1),
                      .eights = static_cast<int>(x.size(-1) / kEight),
                      .sum = values ? sum.mutable_data_ptr<float>() : nullptr,
                      .output = output.mutable_data_ptr<T>(),
                      .rstd = rstd.mutable_data_ptr<float>()};
  for_eights(f.eights, [&](auto most) {
    norm_forward<decltype(most)::value><<<static_cast<unsigned>(divided(f.rows, kWarps)), kThreads,
                                          0, at::cuda::getCurrentCUDAStream()>>>(f);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {sum, output, rstd};
}

ThreeTensors add_rms_norm_backward_gpu(const at::Tensor& gradient, const MaybeTensor& of_sum,
                                       const at::Tensor& sum, const at::Tensor& rstd,
                                       const at::Tensor& weight, const MaybeTensor& kept,
                                       double dropped, bool values) {
  check_fits(sum, gradient, weight);
  TORCH_CHECK(gradient.sizes() == sum.sizes() &&
                  (!of_sum || (of_sum->scalar_type() == at::kFloat && in_eights(*of_sum) &&
                               of_sum->sizes() == sum.sizes())),
              "add_rms_norm: gradients must be of the sum's shape, contiguous, and that of the sum "
              "fp32");
  const c10::cuda::CUDAGuard guard(sum.device());
  auto of_x = at::empty_like(sum);
  auto of_values = values ? at::empty_like(gradient) : at::empty({0}, gradient.options());
  const int64_t rows = sum.numel() / std::max<int64_t>(sum.size(-1), 1);
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t blocks = std::min(divided(rows, kWarps), kBlocksOfAProcessor * processors);
  auto of_weight = at::empty({blocks * kWarps, sum.size(-1)}, sum.options());
  if (sum.numel() == 0) return {of_x, of_values, at::sum(of_weight, {0})};
  const NormBackward b{.gradient = gradient.const_data_ptr<T>(),
                       .of_sum = of_sum ? of_sum->const_data_ptr<float>() : nullptr,
                       .sum = sum.const_data_ptr<float>(),
                       .rstd = rstd.const_data_ptr<float>(),
                       .weight = weight.const_data_ptr<float>(),
                       .kept = kept ? kept->const_data_ptr<uint8_t>() : nullptr,
                       .factor = kept_factor(kept.has_value(), dropped),
                       .rows = rows,
                       .eights = static_cast<int>(sum.size(-1) / kEight),
                       .of_x = of_x.mutable_data_ptr<float>(),
                       .of_values = values ? of_values.mutable_data_ptr<T>() : nullptr,
                       .of_weight = of_weight.mutable_data_ptr<float>()};
  for_eights(b.eights, [&](auto most) {
    norm_backward<most>
        <<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(b);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {of_x, of_values, at::sum(of_weight, {0})};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("add_rms_norm", add_rms_norm_gpu);
  m.impl("add_rms_norm_backward", add_rms_norm_backward_gpu);
}

}  // namespace nsvq::transformer_cuda
