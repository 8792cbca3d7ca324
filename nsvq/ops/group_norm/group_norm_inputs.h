// Definitions that the operators on a GPU share: scratch memory, how work is divided, and tensors
// as kernels take them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "nsvq/ops/group_norm/group_norm_passes.h"

namespace nsvq::group_norm_cuda {

/// Scratch memory for pairs of floats; Pair is float2 or Pull.
template <typename Pair>
class Pairs {
 public:
  explicit Pairs(int64_t count)
      : room_(at::empty({count, 2}, at::TensorOptions(at::kCUDA).dtype(at::kFloat))) {}
  Pair* data() const { return reinterpret_cast<Pair*>(room_.mutable_data_ptr<float>()); }

 private:
  at::Tensor room_;
};

inline int processor_count() { return at::cuda::getCurrentDeviceProperties()->multiProcessorCount; }

inline Plan plan_for(const Shape& shape, int vector) {
  const int64_t processors = processor_count();
  const int64_t vectors = shape.channels / vector, blocks = divided(vectors, kThreads);
  const int64_t lanes = divided(vectors, blocks), batch = kThreads / lanes * kForwardBatch;
  const int64_t splits = divided(8 * processors, shape.images * blocks);
  const int64_t pixels = divided(divided(shape.pixels, splits), batch) * batch;
  return {static_cast<int>(lanes), static_cast<int>(blocks),
          static_cast<int>(divided(shape.pixels, pixels)), static_cast<int>(pixels)};
}

inline bool aligned(const at::Tensor& x) {
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

inline Shape shape_of(const at::Tensor& x, int64_t groups) {
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

inline at::Tensor channels_last(const at::Tensor& x) {
  return x.contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace nsvq::group_norm_cuda
