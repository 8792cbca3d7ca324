// The operator on a GPU: inputs, room, and how work is divided.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <tuple>
#include <type_traits>

#include "nsvq/ops/cuda/group_norm.h"
#include "nsvq/ops/group_norm_silu.h"

namespace nsvq::group_norm_cuda {

namespace {

using Triple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

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
void forward(const Shape& shape, const Tensors<T>& t, float eps, bool silu, cudaStream_t stream) {
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  launch_forward<T, V>(shape, plan, t, eps, silu, partials.data(), stream);
}

template <typename T, int V>
void input_gradient(const Shape& shape, const Tensors<T>& t, bool silu, float2* sums,
                    cudaStream_t stream) {
  const auto plan = plan_for(shape, V);
  const Pairs<float2> partials(shape.images * plan.splits * shape.channels);
  const Pairs<Pull> pulls(shape.images * shape.groups);
  launch_backward<T, V>(shape, plan, t, silu, partials.data(), pulls.data(), sums, stream);
}

bool aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

template <typename T>
Parameter<T> parameter(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.scalar_type() == at::kFloat};
}

/// Calls body(T, V as a constant) for the type of a tensor and whether vectors of 16 bytes will do.
template <typename Body>
void for_type(const Shape& shape, const at::Tensor& x, const void* other, Body body) {
  const auto with = [&](auto type) {
    constexpr int V = kVector<decltype(type)>;
    if (shape.channels % V == 0 && aligned(x.const_data_ptr()) && aligned(other)) {
      body(type, std::integral_constant<int, V>{});
    } else {
      body(type, std::integral_constant<int, 1>{});
    }
  };
  if (x.scalar_type() == at::kFloat) return with(float{});
  if (x.scalar_type() == at::kHalf) return with(c10::Half{});
  with(c10::BFloat16{});
}

Shape shape_of(const at::Tensor& x, int64_t groups) {
  const int64_t pixels = x.size(2) * x.size(3), limit = int64_t{1} << 30;
  TORCH_CHECK(pixels < limit && x.size(1) < limit,
              "group_norm_silu: input has too many pixels or channels: ", x.sizes());
  return {x.size(0), static_cast<int>(pixels), static_cast<int>(x.size(1)),
          static_cast<int>(groups)};
}

Triple group_norm_silu_cuda(const at::Tensor& input, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t groups, double eps, bool silu) {
  check_group_norm_silu(input, weight, bias, groups);
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = weight.contiguous(), b = bias.contiguous();
  auto output = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  auto mean = at::empty({x.size(0), groups}, x.options().dtype(at::kFloat));
  auto rstd = at::empty_like(mean);
  if (x.numel() == 0) return {output, mean.zero_(), rstd.zero_()};
  const auto shape = shape_of(x, groups);
  for_type(shape, x, nullptr, [&](auto type, auto vector) {
    using T = decltype(type);
    const Tensors<T> t{x.const_data_ptr<T>(),
                       nullptr,
                       output.mutable_data_ptr<T>(),
                       parameter<T>(w),
                       parameter<T>(b),
                       mean.mutable_data_ptr<float>(),
                       rstd.mutable_data_ptr<float>()};
    forward<T, vector>(shape, t, static_cast<float>(eps), silu, at::cuda::getCurrentCUDAStream());
  });
  return {output, mean, rstd};
}

Triple group_norm_silu_backward_cuda(const at::Tensor& gradient, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& mean, const at::Tensor& rstd, bool silu) {
  const int64_t groups = mean.size(1);
  check_group_norm_silu(input, weight, bias, groups);
  const c10::cuda::CUDAGuard guard(input.device());
  const auto x = input.contiguous(at::MemoryFormat::ChannelsLast);
  const auto dy = gradient.to(x.scalar_type()).contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = weight.contiguous(), b = bias.contiguous();
  auto m = mean.contiguous(), r = rstd.contiguous();
  auto dx = at::empty_like(x, at::MemoryFormat::ChannelsLast);
  const auto dw = at::empty_like(w), db = at::empty_like(b);
  if (x.numel() == 0) return {dx, at::zeros_like(weight), at::zeros_like(bias)};
  const auto shape = shape_of(x, groups);
  const auto stream = at::cuda::getCurrentCUDAStream();
  const Pairs<float2> sums(shape.images * shape.channels);
  for_type(shape, x, dy.const_data_ptr(), [&](auto type, auto vector) {
    using T = decltype(type);
    const Tensors<T> t{x.const_data_ptr<T>(),
                       dy.const_data_ptr<T>(),
                       dx.mutable_data_ptr<T>(),
                       parameter<T>(w),
                       parameter<T>(b),
                       m.mutable_data_ptr<float>(),
                       r.mutable_data_ptr<float>()};
    input_gradient<T, vector>(shape, t, silu, sums.data(), stream);
    parameter_gradients(shape, sums.data(), r.const_data_ptr<float>(), parameter<T>(dw),
                        parameter<T>(db), stream);
  });
  return {dx, dw, db};
}

}  // namespace

TORCH_LIBRARY_IMPL(nsvq, CUDA, m) {
  m.impl("group_norm_silu", group_norm_silu_cuda);
  m.impl("group_norm_silu_backward", group_norm_silu_backward_cuda);
}

}  // namespace nsvq::group_norm_cuda
