// The operators on a GPU, forward.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/group_norm/add_norm_silu.h"
#include "nsvq/ops/group_norm/group_norm_inputs.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"
#include "nsvq/ops/group_norm/offset_norm_silu.h"

namespace nsvq::group_norm_cuda {

namespace {

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Quadruple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

template <typename T, int V>
void forward(const Shape& shape, const Tensors<T>& t, Addition<T> addition, float eps, bool silu,
             cudaStream_t stream) {
  if constexpr (V > 1) {
    if (const auto small = plan_small_forward(shape, V, sizeof(T), processor_count())) {
      return launch_small_forward<T, V>(shape, *small, t, addition, eps, silu, stream);
    }
  }
  if constexpr (V > 4) {  // groups of 4 channels
    if (const auto small = plan_small_forward(shape, 4, sizeof(T), processor_count())) {
      return launch_small_forward<T, 4>(shape, *small, t, addition, eps, silu, stream);
    }
  }
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  at::Tensor room;
  // What is equal at all pixels is added again in the second pass.
  if (addition.other && !addition.sum) {
    room = at::empty({shape.images, shape.pixels, shape.channels},
                     at::TensorOptions(at::kCUDA).dtype(c10::CppTypeToScalarType<T>::value));
    addition.sum = room.mutable_data_ptr<T>();
  }
  launch_forward<T, V>(shape, plan, t, addition, eps, silu, partials.data(), stream);
}

at::Tensor channels_last_or_none(const at::Tensor& x) { return x.defined() ? channels_last(x) : x; }
at::Tensor contiguous_or_none(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// A tensor of the sizes of cat(a, skip), without memory of its own.
at::Tensor as_joined(const at::Tensor& a, const at::Tensor& skip) {
  if (!skip.defined()) return a;
  return a.narrow(1, 0, 1).expand({a.size(0), a.size(1) + skip.size(1), a.size(2), a.size(3)});
}

/// Whether the one-kernel forward pass, the only one that reads a skip itself, applies.
bool joins_at_once(const at::Tensor& a, const at::Tensor& b, const at::Tensor& skip,
                   const Shape& shape) {
  const auto bytes = static_cast<int>(a.element_size()), vector = 16 / bytes;
  const auto is_small = [&](int taken) {
    return plan_small_forward(shape, taken, bytes, processor_count()).has_value();
  };
  return aligned(a) && aligned(b) && aligned(skip) && a.size(1) % vector == 0 &&
         skip.size(1) % vector == 0 && (is_small(vector) || is_small(4));
}

enum class SumRoom { none, own, b };

/// Sum (not defined without room for it), output, mean, rstd.
Quadruple forward_cuda(const at::Tensor& input, const NormOffsets& offsets, SumRoom room,
                       const at::Tensor& weight, const at::Tensor& bias, int64_t groups, double eps,
                       bool silu) {
  const auto all = as_joined(input, offsets.skip);
  check_group_norm_silu(all, weight, bias, groups);
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = channels_last(input), w = weight.contiguous(), b = bias.contiguous();
  const auto more = channels_last_or_none(offsets.b), skip = channels_last_or_none(offsets.skip);
  const auto shift = contiguous_or_none(offsets.shift), offset = contiguous_or_none(offsets.offset);
  const auto shape = shape_of(all, groups);
  if (skip.defined() && !joins_at_once(x, more, skip, shape)) {
    const auto joined = channels_last(sum_reference(input, offsets));
    auto results = forward_cuda(joined, {}, SumRoom::none, weight, bias, groups, eps, silu);
    if (room != SumRoom::none) std::get<0>(results) = joined;
    return results;
  }
  at::Tensor sum;
  auto output = at::empty(all.sizes(), x.options(), at::MemoryFormat::ChannelsLast);
  if (room == SumRoom::own) sum = at::empty_like(output, at::MemoryFormat::ChannelsLast);
  if (room == SumRoom::b) sum = more;
  auto mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  auto rstd = at::empty_like(mean);
  if (output.numel() == 0) return {sum, output, mean.zero_(), rstd.zero_()};
  for_type(shape, {x, more, sum}, [&](auto type, auto vector) {
    using T = decltype(type);
    const Tensors<T> t{.input = x.const_data_ptr<T>(),
                       .gradient = nullptr,
                       .carried = nullptr,
                       .result = output.mutable_data_ptr<T>(),
                       .weight = parameter<T>(w),
                       .bias = parameter<T>(b),
                       .mean = mean.mutable_data_ptr<float>(),
                       .rstd = rstd.mutable_data_ptr<float>()};
    const Addition<T> addition{.other = data_or_null<T>(more),
                               .shift = data_or_null<T>(shift),
                               .offset = offset.defined() ? parameter<T>(offset) : Parameter<T>{},
                               .sum = room_or_null<T>(sum),
                               .skip = data_or_null<T>(skip),
                               .skip_channels = shape.channels - static_cast<int>(x.size(1))};
    forward<T, vector>(shape, t, addition, static_cast<float>(eps), silu,
                       at::cuda::getCurrentCUDAStream());
  });
  return {sum, output, mean, rstd};
}

Triple group_norm_silu_cuda(const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  auto [sum, output, mean, rstd] =
      forward_cuda(input, {}, SumRoom::none, weight, bias, groups, eps, silu);
  return {output, mean, rstd};
}

Quadruple add_norm_silu_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weight,
                             const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  check_addends(a, b);
  return forward_cuda(a, {b, {}, {}, {}}, SumRoom::own, weight, bias, groups, eps, silu);
}

std::tuple<at::Tensor, at::Tensor> offset_norm_silu_cuda(
    const at::Tensor& a, const std::optional<at::Tensor>& b, const std::optional<at::Tensor>& shift,
    const std::optional<at::Tensor>& offset, const std::optional<at::Tensor>& skip,
    const at::Tensor& weight, const at::Tensor& bias, int64_t groups, double eps, bool silu,
    bool keep_sum) {
  const at::Tensor none;
  const NormOffsets offsets{b.value_or(none), shift.value_or(none), offset.value_or(none),
                            skip.value_or(none)};
  check_offsets(a, offsets);
  auto [sum, output, mean, rstd] = forward_cuda(a, offsets, keep_sum ? SumRoom::own : SumRoom::none,
                                                weight, bias, groups, eps, silu);
  return {keep_sum ? sum : at::empty({0}, a.options()), output};
}

at::Tensor offset_norm_silu_in_place_cuda(const at::Tensor& a, const at::Tensor& b,
                                          const std::optional<at::Tensor>& offset,
                                          const at::Tensor& weight, const at::Tensor& bias,
                                          int64_t groups, double eps, bool silu) {
  const NormOffsets offsets{b, {}, offset.value_or(at::Tensor())};
  check_in_place(a, offsets);
  return std::get<1>(forward_cuda(a, offsets, SumRoom::b, weight, bias, groups, eps, silu));
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("group_norm_silu", group_norm_silu_cuda);
  m.impl("add_norm_silu", add_norm_silu_cuda);
  m.impl("offset_norm_silu", offset_norm_silu_cuda);
  m.impl("offset_norm_silu_", offset_norm_silu_in_place_cuda);
}

}  // namespace nsvq::group_norm_cuda
