#pragma once

#include <torch/types.h>

#include <string>

namespace nsvq {

/// How often each code was used (`hits` [K] int64), most used first, beside even use, as one <svg>
/// element.
std::string usage_chart(const torch::Tensor& hits);

}  // namespace nsvq
