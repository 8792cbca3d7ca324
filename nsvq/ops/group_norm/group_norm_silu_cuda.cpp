// The operators on a GPU: inputs, room, and how work is divided.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>

#include "nsvq/ops/group_norm/add_norm_silu.h"
#include "nsvq/ops/group_norm/group_norm_passes.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq::group_norm_cuda {

namespace {

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Quadruple = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Room for pairs of floats; Pair is float2 or Pull.
template <typename Pair>
class Pairs {
 public:
  explicit Pairs(int64_t count)
      : room_(at::empty({count, 2}, at::TensorOptions(at::kCUDA).dtype(at::kFloat))) {}
  Pair* data() const { return reinterpret_cast<Pair*>(room_.mutable_data_ptr<float>()); }

 private:
  at::Tensor room_;
};

Plan plan_for(const Shape& shape, int vector) {
  const int64_t processors = at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int64_t vectors = shape.channels / vector, blocks = divided(vectors, kThreads);
  const int64_t lanes = divided(vectors, blocks), batch = kThreads / lanes * kForwardBatch;
  const int64_t splits = divided(8 * processors, shape.images * blocks);
  const int64_t pixels = divided(divided(shape.pixels, splits), batch) * batch;
  return {static_cast<int>(lanes), static_cast<int>(blocks),
          static_cast<int>(divided(shape.pixels, pixels)), static_cast<int>(pixels)};
}

template <typename T, int V>
void forward(const Shape& shape, const Tensors<T>& t, const Addition<T>& addition, float eps,
             bool silu, cudaStream_t stream) {
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  launch_forward<T, V>(shape, plan, t, addition, eps, silu, partials.data(), stream);
}

template <typename T, int V>
void input_gradient(const Shape& shape, const Tensors<T>& t, bool silu, float2* sums,
                    cudaStream_t stream) {
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  const Pairs<Pull> pulls(shape.images * shape.groups);
  launch_backward<T, V>(shape, plan, t, silu, partials.data(), pulls.data(), sums, stream);
}

bool aligned(const at::Tensor& x) {
  return !x.defined() || reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

template <typename T>
Parameter<T> parameter(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.scalar_type() == at::kFloat};
}

/// Calls body(T, V as a constant) for the type of tensors, of which those after the first may be
/// undefined, and whether vectors of 16 bytes will do.
template <typename Body>
void for_type(const Shape& shape, const std::array<at::Tensor, 3>& tensors, Body body) {
  const auto with = [&](auto type) {
    constexpr int V = kVector<decltype(type)>;
    if (shape.channels % V == 0 && std::all_of(tensors.begin(), tensors.end(), aligned)) {
      body(type, std::integral_constant<int, V>{});
    } else {
      body(type, std::integral_constant<int, 1>{});
    }
  };
  const auto type = tensors[0].scalar_type();
  if (type == at::kFloat) return with(float{});
  if (type == at::kHalf) return with(c10::Half{});
  with(c10::BFloat16{});
}

Shape shape_of(const at::Tensor& x, int64_t groups) {
  const int64_t pixels = x.size(2) * x.size(3), limit = int64_t{1} << 30;
  TORCH_CHECK(pixels < limit && x.size(1) < limit,
              "group_norm_silu: input has too many pixels or channels: ", x.sizes());
  return {x.size(0), static_cast<int>(pixels), static_cast<int>(x.size(1)),
          static_cast<int>(groups)};
}

template <typename T>
const T* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<T>() : nullptr;
}

template <typename T>
T* room_or_null(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}

at::Tensor channels_last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

/// Sum (not defined where `other` is not), output, mean, rstd.
Quadruple forward_cuda(const at::Tensor& input, const at::Tensor& other, const at::Tensor& weight,
                       const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  check_group_norm_silu(input, weight, bias, groups);
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = channels_last(input), w = weight.contiguous(), b = bias.contiguous();
  const auto more = other.defined() ? channels_last(other) : other;
  auto sum = other.defined() ? at::empty_like(x, at::MemoryFormat::ChannelsLast) : other;
  auto output = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  auto mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  auto rstd = at::empty_like(mean);
  if (x.numel() == 0) return {sum, output, mean.zero_(), rstd.zero_()};
  const auto shape = shape_of(x, groups);
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
    forward<T, vector>(shape, t, {data_or_null<T>(more), room_or_null<T>(sum)},
                       static_cast<float>(eps), silu, at::cuda::getCurrentCUDAStream());
  });
  return {sum, output, mean, rstd};
}

/// `carried` may be undefined.
Triple backward_cuda(const at::Tensor& carried, const at::Tensor& gradient, const at::Tensor& input,
                     const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                     const at::Tensor& rstd, bool silu) {
  const int64_t groups = mean.size(1);
  check_group_norm_silu(input, weight, bias, groups);
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = channels_last(input), w = weight.contiguous(), b = bias.contiguous();
  const auto dy = channels_last(gradient.to(x.scalar_type()));
  const auto more = carried.defined() ? channels_last(carried.to(x.scalar_type())) : carried;
  auto m = mean.contiguous(), r = rstd.contiguous();
  auto dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  const auto dw = at::empty_like(w), db = at::empty_like(b);
  if (x.numel() == 0) return {dx, at::zeros_like(weight), at::zeros_like(bias)};
  const auto shape = shape_of(x, groups);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const Pairs<float2> sums(shape.images * shape.channels);
  for_type(shape, {x, dy, more}, [&](auto type, auto vector) {
    using T = decltype(type);
    const Tensors<T> t{.input = x.const_data_ptr<T>(),
                       .gradient = dy.const_data_ptr<T>(),
                       .carried = data_or_null<T>(more),
                       .result = dx.mutable_data_ptr<T>(),
                       .weight = parameter<T>(w),
                       .bias = parameter<T>(b),
                       .mean = m.mutable_data_ptr<float>(),
                       .rstd = r.mutable_data_ptr<float>()};
    input_gradient<T, vector>(shape, t, silu, sums.data(), stream);
    parameter_gradients(shape, sums.data(), r.const_data_ptr<float>(), parameter<T>(dw),
                        parameter<T>(db), stream);
  });
  return {dx, dw, db};
}

Triple group_norm_silu_cuda(const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  auto [sum, output, mean, rstd] = forward_cuda(input, {}, weight, bias, groups, eps, silu);
  return {output, mean, rstd};
}

Triple group_norm_silu_backward_cuda(const at::Tensor& gradient, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  return backward_cuda({}, gradient, input, weight, bias, mean, rstd, silu);
}

Quadruple add_norm_silu_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& weight,
                             const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  check_addends(a, b);
  return forward_cuda(a, b, weight, bias, groups, eps, silu);
}

Triple add_norm_silu_backward_cuda(const std::optional<at::Tensor>& sum_gradient,
                                   const at::Tensor& gradient, const at::Tensor& sum,
                                   const at::Tensor& weight, const at::Tensor& bias,
                                   const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  return backward_cuda(sum_gradient.value_or(at::Tensor()), gradient, sum, weight, bias, mean, rstd,
                       silu);
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("group_norm_silu", group_norm_silu_cuda);
  m.impl("group_norm_silu_backward", group_norm_silu_backward_cuda);
  m.impl("add_norm_silu", add_norm_silu_cuda);
  m.impl("add_norm_silu_backward", add_norm_silu_backward_cuda);
}

}  // namespace nsvq::group_norm_cuda
