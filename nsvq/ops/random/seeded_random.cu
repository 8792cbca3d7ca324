#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "nsvq/ops/common/grid.h"
#include "nsvq/ops/random/numbered_seed.h"
#include "nsvq/ops/random/philox.h"

namespace nsvq {

namespace {

constexpr int kThreads = 256;

/// Writes value(seed, index) for each index of each seed's row.
template <typename Value>
__global__ void __launch_bounds__(kThreads)
    values_kernel(const int64_t* __restrict__ seeds, int64_t rows, int64_t count, Value value,
                  float* __restrict__ values) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= rows * count) return;
  const int64_t row = i / count;
  values[i] = value(static_cast<uint64_t>(seeds[row]), i - row * count);
}

struct SeededValue {
  int64_t draw;
  bool normal;
  __device__ float operator()(uint64_t seed, int64_t place) const {
    return normal ? normal_at(seed, draw, place) : uniform_at(seed, draw, place);
  }
};

struct GumbelValue {
  int64_t first;
  __device__ float operator()(uint64_t seed, int64_t place) const {
    return gumbels_at(seed, (first + place) / 4).at[(first + place) % 4];
  }
};

/// A tensor [rows, count], for seeds [rows] or one seed.
template <typename Value>
at::Tensor rows_of(const at::Tensor& seeds, int64_t count, Value value) {
  const c10::cuda::CUDAGuard guard(seeds.device());
  const int64_t rows = seeds.numel();
  auto values = at::empty({rows, count}, seeds.options().dtype(at::kFloat));
  if (values.numel() == 0) return values;
  const auto starts = seeds.contiguous();
  const auto blocks = static_cast<unsigned>(divided(values.numel(), kThreads));
  values_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      starts.const_data_ptr<int64_t>(), rows, count, value, values.mutable_data_ptr<float>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return values;
}

/// Distances in numbers, of rows and in a row.
struct Steps {
  int64_t row, column;
};

__global__ void __launch_bounds__(kThreads)
    numbered_seeds_kernel(const int64_t* __restrict__ seeds, Steps of_seeds,
                          const int64_t* __restrict__ numbers, Steps of_numbers, int64_t count,
                          int64_t columns, int64_t* __restrict__ made) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / columns, column = i - row * columns;
  made[i] = numbered_seed(seeds[row * of_seeds.row + column * of_seeds.column],
                          numbers[row * of_numbers.row + column * of_numbers.column]);
}

/// Without copies of what is broadcast, for at most two dimensions.
at::Tensor numbered_seeds_cuda(const at::Tensor& seeds, const at::Tensor& numbers) {
  const c10::cuda::CUDAGuard guard(seeds.device());
  const auto shape = at::infer_size(seeds.sizes(), numbers.sizes());
  auto made = at::empty(shape, seeds.options());
  if (made.numel() == 0) return made;
  const int64_t columns = shape.empty() ? 1 : shape.back();
  const auto in_two = [&](const at::Tensor& x) {
    const auto whole = x.expand(shape);
    return shape.size() == 2 ? whole : whole.reshape({-1, columns});
  };
  const auto start = in_two(seeds), number = in_two(numbers);
  const auto blocks = static_cast<unsigned>(divided(made.numel(), kThreads));
  numbered_seeds_kernel<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      start.const_data_ptr<int64_t>(), {start.stride(0), start.stride(1)},
      number.const_data_ptr<int64_t>(), {number.stride(0), number.stride(1)}, made.numel(), columns,
      made.mutable_data_ptr<int64_t>());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return made;
}

at::Tensor seeded_values_cuda(const at::Tensor& seed, int64_t draw, int64_t count, bool normal) {
  return rows_of(seed, count, SeededValue{draw, normal}).flatten();
}

at::Tensor seeded_rows_cuda(const at::Tensor& seeds, int64_t draw, int64_t count, bool normal) {
  return rows_of(seeds, count, SeededValue{draw, normal});
}

at::Tensor gumbel_values_cuda(const at::Tensor& seed, int64_t first, int64_t count) {
  return rows_of(seed, count, GumbelValue{first}).flatten();
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("numbered_seeds", numbered_seeds_cuda);
  m.impl("seeded_values", seeded_values_cuda);
  m.impl("seeded_rows", seeded_rows_cuda);
  m.impl("gumbel_values", gumbel_values_cuda);
}

}  // namespace nsvq
