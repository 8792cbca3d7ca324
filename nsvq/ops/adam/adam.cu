// Adam and the weight average in one pass over memory: 5 reads and 4 writes of each number.

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "nsvq/ops/adam/adam_table.h"
#include "nsvq/ops/common/vectors.cuh"

namespace nsvq::adam_cuda {

namespace {

using vectors::load;
using vectors::Pack;
using vectors::store;

constexpr int kThreads = 256;

enum class Work { adam, adam_and_average, average };

struct Rates {
  double lr;
  float eps, beta2, share1, share2, weight_decay, share_of_average;
  float log_beta1, log_beta2;
};

/// Scalars on the GPU; null where they are not given.
struct Inputs {
  const bool* bad;
  const double* lr_factor;
  const float* gradient_factor;
  const float* average_decay;
};

constexpr size_t kMostParameterBytes = 32764;
static_assert(sizeof(Table) + sizeof(Rates) + sizeof(Inputs) <= kMostParameterBytes);

/// Linear interpolation, exact for shares 0 and 1 as at::lerp is.
__device__ float lerp(float from, float to, float share) {
  return share < 0.5f ? from + share * (to - from) : to - (to - from) * (1 - share);
}

__device__ int tensor_of(const Table& table, int block) {
  int low = 0, high = table.steps.count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first[middle] <= block) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// The chunk of a block, and what it needs of its tensor. Pointers that `kWork` does not need are
/// never read.
template <Work kWork>
struct Chunk {
  float *parameter, *moment1, *moment2, *average;
  const float* gradient;
  int size;
  float step_size = 0, root_of_correction2 = 1, shrinking = 0, gradient_factor = 1;
  float share_of_average;

  __device__ Chunk(const Table& table, const Rates& rates, const Inputs& inputs, int tensor,
                   int64_t begin)
      : parameter(table.parameters[tensor] + begin),
        moment1(table.moments1[tensor] + begin),
        moment2(table.moments2[tensor] + begin),
        average(table.averages[tensor] + begin),
        gradient(table.gradients[tensor] + begin),
        size(static_cast<int>(min(table.sizes[tensor] - begin, int64_t{kChunk}))),
        share_of_average(inputs.average_decay != nullptr ? 1 - *inputs.average_decay
                                                         : rates.share_of_average) {
    if constexpr (kWork == Work::average) return;
    // 1 - beta^steps without cancellation. The count is written once all blocks have read it.
    const float steps = *table.steps.of[tensor] + 1;
    const double factor = inputs.lr_factor != nullptr ? *inputs.lr_factor : 1;
    const auto lr = static_cast<float>(rates.lr * table.lr_scales[tensor] * factor);
    step_size = lr / -expm1f(steps * rates.log_beta1);
    root_of_correction2 = sqrtf(-expm1f(steps * rates.log_beta2));
    shrinking = lr * rates.weight_decay;
    if (inputs.gradient_factor != nullptr) gradient_factor = *inputs.gradient_factor;
  }
};

template <Work kWork, int V>
__device__ void update(const Chunk<kWork>& chunk, const Rates& rates, int at) {
  auto p = load<V>(chunk.parameter + at);
  Pack<float, V> g, m, v, average;
  if constexpr (kWork != Work::adam) average = load<V>(chunk.average + at);
  if constexpr (kWork != Work::average) {
    g = load<V>(chunk.gradient + at);
    m = load<V>(chunk.moment1 + at);
    v = load<V>(chunk.moment2 + at);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float gradient = chunk.gradient_factor * g.values[i];
      m.values[i] = lerp(m.values[i], gradient, rates.share1);
      v.values[i] = rates.beta2 * v.values[i] + rates.share2 * gradient * gradient;
      const float divisor = sqrtf(v.values[i]) / chunk.root_of_correction2 + rates.eps;
      p.values[i] -= chunk.shrinking * p.values[i];
      p.values[i] -= chunk.step_size * m.values[i] / divisor;
    }
    store(m, chunk.moment1 + at);
    store(v, chunk.moment2 + at);
    store(p, chunk.parameter + at);
  }
  if constexpr (kWork != Work::adam) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      average.values[i] = lerp(average.values[i], p.values[i], chunk.share_of_average);
    }
    store(average, chunk.average + at);
  }
}

template <Work kWork>
__global__ void __launch_bounds__(kThreads)
    update_chunks(const __grid_constant__ Table table, const __grid_constant__ Rates rates,
                  const Inputs inputs) {
  if (inputs.bad != nullptr && *inputs.bad) return;
  const int tensor = tensor_of(table, blockIdx.x);
  const int64_t begin = static_cast<int64_t>(blockIdx.x - table.first[tensor]) * kChunk;
  const Chunk<kWork> chunk(table, rates, inputs, tensor, begin);
  const int vectors = table.aligned[tensor] ? chunk.size / kVector : 0;
  for (int i = threadIdx.x; i < vectors; i += kThreads) {
    update<kWork, kVector>(chunk, rates, i * kVector);
  }
  for (int i = vectors * kVector + threadIdx.x; i < chunk.size; i += kThreads) {
    update<kWork, 1>(chunk, rates, i);
  }
}

__global__ void __launch_bounds__(kThreads)
    count_steps(const __grid_constant__ Steps steps, const bool* bad) {
  if (bad != nullptr && *bad) return;
  for (int i = threadIdx.x; i < steps.count; i += kThreads) *steps.of[i] += 1;
}

template <Work kWork>
void run(const Lists& lists, const Rates& rates, const Inputs& inputs) {
  const c10::cuda::CUDAGuard guard(lists.parameters[0].device());
  const auto stream = at::cuda::getCurrentCUDAStream();
  const size_t count = lists.parameters.size();
  for (size_t begin = 0; begin < count; begin += kMost) {
    const auto table = table_of(lists, begin, std::min(count, begin + kMost));
    const int blocks = table.first[table.steps.count];
    if (blocks > 0) {
      update_chunks<kWork><<<blocks, kThreads, 0, stream>>>(table, rates, inputs);
      C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    if (kWork == Work::average) continue;
    count_steps<<<1, kThreads, 0, stream>>>(table.steps, inputs.bad);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
}

template <typename T>
const T* pointer_to(const std::optional<at::Tensor>& scalar) {
  return scalar ? scalar->const_data_ptr<T>() : nullptr;
}

void adam_step_cuda(at::TensorList parameters, at::TensorList gradients, at::TensorList moments1,
                    at::TensorList moments2, at::TensorList steps, at::TensorList averages,
                    const std::optional<at::Tensor>& bad,
                    const std::optional<at::Tensor>& lr_factor,
                    const std::optional<at::Tensor>& gradient_factor,
                    const std::optional<at::Tensor>& average_decay_now,
                    at::ArrayRef<double> lr_scales, double lr, double beta1, double beta2,
                    double eps, double weight_decay, double average_decay) {
  const auto narrow = [](double value) { return static_cast<float>(value); };
  const Rates rates{lr,
                    narrow(eps),
                    narrow(beta2),
                    narrow(1 - beta1),
                    narrow(1 - beta2),
                    narrow(weight_decay),
                    narrow(1 - average_decay),
                    narrow(std::log(beta1)),
                    narrow(std::log(beta2))};
  const Lists lists{parameters, gradients, moments1, moments2, steps, averages, lr_scales};
  const Inputs inputs{pointer_to<bool>(bad), pointer_to<double>(lr_factor),
                      pointer_to<float>(gradient_factor), pointer_to<float>(average_decay_now)};
  if (averages.empty()) return run<Work::adam>(lists, rates, inputs);
  run<Work::adam_and_average>(lists, rates, inputs);
}

void average_step_cuda(at::TensorList parameters, at::TensorList averages,
                       const std::optional<at::Tensor>& bad, double decay) {
  Rates rates{};
  rates.share_of_average = static_cast<float>(1 - decay);
  run<Work::average>({parameters, {}, {}, {}, {}, averages}, rates,
                     {pointer_to<bool>(bad), nullptr, nullptr, nullptr});
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("adam_step", adam_step_cuda);
  m.impl("average_step", average_step_cuda);
}

}  // namespace nsvq::adam_cuda
