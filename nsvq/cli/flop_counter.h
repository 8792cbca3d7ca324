#pragma once

#include <functional>

namespace nsvq {

/// Multiplications and additions in the convolutions of `work`, gradients included, on any thread:
/// nearly all that a training step does. Other operations are not counted.
double convolution_flops(const std::function<void()>& work);

}  // namespace nsvq
