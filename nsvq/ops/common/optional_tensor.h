#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace nsvq {

// Schemas have `Tensor?` where functions have a tensor that may be undefined.

using OptionalTensor = std::optional<at::Tensor>;

inline OptionalTensor optional_of(const at::Tensor& x) {
  return x.defined() ? OptionalTensor(x) : std::nullopt;
}

inline at::Tensor tensor_of(const OptionalTensor& x) { return x.value_or(at::Tensor()); }

}  // namespace nsvq
