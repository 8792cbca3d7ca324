// The operators' gradients on a GPU.
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

#include "nsvq/ops/group_norm/add_norm_silu.h"
#include "nsvq/ops/group_norm/group_norm_inputs.h"
#include "nsvq/ops/group_norm/group_norm_silu.h"

namespace nsvq::group_norm_cuda {

namespace {

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

template <typename T, int V>
void input_gradient(const Shape& shape, const Tensors<T>& t, bool silu, float2* sums,
                    cudaStream_t stream) {
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  const Pairs<Pull> pulls(shape.images * shape.groups);
  launch_backward<T, V>(shape, plan, t, silu, partials.data(), pulls.data(), sums, stream);
}

/// Gradients of input, weight and bias; `carried` may be undefined.
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

Triple group_norm_silu_backward_cuda(const at::Tensor& gradient, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  return backward_cuda({}, gradient, input, weight, bias, mean, rstd, silu);
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
  m.impl("group_norm_silu_backward", group_norm_silu_backward_cuda);
  m.impl("add_norm_silu_backward", add_norm_silu_backward_cuda);
}

}  // namespace nsvq::group_norm_cuda
