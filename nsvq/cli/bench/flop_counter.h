#pragma once

#include <functional>

namespace nsvq {

/// FLOPs (multiplications and additions) of the convolutions in `work`, backward included, on all
/// threads. Other operators are not counted; convolutions are nearly all of a training step.
double convolution_flops(const std::function<void()>& work);

}  // namespace nsvq
