#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace nsvq {

/// Tensors by name, as files hold them.
using TensorMap = std::map<std::string, at::Tensor>;

}  // namespace nsvq
