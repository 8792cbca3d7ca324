// Bound by memory: each number is read once, in pieces of 16 bytes.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <type_traits>

#include "nsvq/ops/common/vectors.cuh"
#include "nsvq/ops/images/residual_sum.h"

namespace nsvq::residual_sum_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;
using vectors::unpack;

constexpr int kThreads = 256;

template <typename T>
struct Terms {
  const T *x, *h;       ///< null h: nothing to add
  const float* offset;  ///< null: nothing to add
  T* result;
  int height, width, run;  ///< pieces of a pixel
};

/// x + offset in T, then + h in T, as two operators of PyTorch.
template <typename T, int V>
__device__ Pack<T, V> sum_at(const Terms<T>& t, int64_t piece, int channel) {
  auto sum = load<V>(t.x + piece * V);
  float values[V];
  if (t.offset) {
    unpack(sum, values);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const float offset = static_cast<float>(static_cast<T>(t.offset[channel + v]));
      sum.values[v] = static_cast<T>(values[v] + offset);
    }
  }
  if (t.h) {
    float more[V];
    unpack(sum, values);
    unpack(load<V>(t.h + piece * V), more);
#pragma unroll
    for (int v = 0; v < V; ++v) sum.values[v] = static_cast<T>(values[v] + more[v]);
  }
  return sum;
}

/// A block has a row of x, or of the padded result.
template <typename T, int V, SumForm kForm>
__global__ void __launch_bounds__(kThreads) sum_rows(Terms<T> t) {
  constexpr int kMore = kForm == SumForm::padded_after ? 1 : 0;
  const int rows = t.height + kMore, row = static_cast<int>(blockIdx.x % rows);
  const int64_t image = blockIdx.x / rows;
  const int64_t from = (image * t.height + row) * t.width * t.run;
  const int pieces = (t.width + kMore) * t.run;
  for (int i = threadIdx.x; i < pieces; i += kThreads) {
    const int channel = i % t.run * V;
    if constexpr (kForm == SumForm::doubled) {
      const auto sum = sum_at<T, V>(t, from + i, channel);
      const int64_t wide = 2 * t.width * t.run;
      const int64_t to = (image * t.height + row) * 2 * wide + i / t.run * 2 * t.run + i % t.run;
      for (const int64_t at : {to, to + t.run, to + wide, to + wide + t.run}) {
        store(sum, t.result + at * V);
      }
    } else {
      const bool inside = kMore == 0 || (row < t.height && i < t.width * t.run);
      store(inside ? sum_at<T, V>(t, from + i, channel) : Pack<T, V>{},
            t.result + (static_cast<int64_t>(blockIdx.x) * pieces + i) * V);
    }
  }
}

template <typename T, int V>
void launch(const Terms<T>& terms, int64_t images, SumForm form) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const auto run = [&](auto kernel, int64_t rows) {
    kernel<<<images * rows, kThreads, 0, stream>>>(terms);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  switch (form) {
    case SumForm::plain:
      return run(sum_rows<T, V, SumForm::plain>, terms.height);
    case SumForm::padded_after:
      return run(sum_rows<T, V, SumForm::padded_after>, terms.height + 1);
    case SumForm::doubled:
      return run(sum_rows<T, V, SumForm::doubled>, terms.height);
  }
}

bool aligned(const at::Tensor& x) {
  return !x.defined() || reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

at::Tensor channels_last(const std::optional<at::Tensor>& x) {
  return x ? x->contiguous(at::MemoryFormat::ChannelsLast) : at::Tensor();
}

at::Tensor residual_sum_cuda(const at::Tensor& input, const std::optional<at::Tensor>& branch,
                             const std::optional<at::Tensor>& bias, int64_t form_number) {
  const auto form = static_cast<SumForm>(form_number);
  const auto x = channels_last(input), h = channels_last(branch);
  at::Tensor offset;
  if (bias) offset = bias->to(at::kFloat).contiguous();
  check_residual(x, h, offset);
  const c10::cuda::CUDAGuard guard(x.device());
  const int64_t times = form == SumForm::doubled ? 2 : 1;
  const int64_t more = form == SumForm::padded_after ? 1 : 0;
  const int64_t images = x.size(0), height = x.size(2), width = x.size(3);
  auto result = at::empty({images, x.size(1), times * height + more, times * width + more},
                          x.options(), at::MemoryFormat::ChannelsLast);
  if (result.numel() == 0) return result;
  TORCH_CHECK(
      (width + more) * x.size(1) < int64_t{1} << 30 && images * (height + more) < int64_t{1} << 31,
      "residual_sum: too large: ", x.sizes());
  const auto with = [&](auto type) {
    using T = decltype(type);
    constexpr int V = 16 / sizeof(T);
    const bool wide = x.size(1) % V == 0 && aligned(x) && aligned(h);
    const Terms<T> terms{.x = x.const_data_ptr<T>(),
                         .h = h.defined() ? h.const_data_ptr<T>() : nullptr,
                         .offset = offset.defined() ? offset.const_data_ptr<float>() : nullptr,
                         .result = result.mutable_data_ptr<T>(),
                         .height = static_cast<int>(height),
                         .width = static_cast<int>(width),
                         .run = static_cast<int>(x.size(1) / (wide ? V : 1))};
    wide ? launch<T, V>(terms, images, form) : launch<T, 1>(terms, images, form);
  };
  if (x.scalar_type() == at::kFloat) {
    with(float{});
  } else if (x.scalar_type() == at::kHalf) {
    with(c10::Half{});
  } else {
    with(c10::BFloat16{});
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) { m.impl("residual_sum", residual_sum_cuda); }

}  // namespace nsvq::residual_sum_cuda
