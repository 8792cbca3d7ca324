// The passes of the operators on a GPU by blocked matrix products (blocked.h).
#pragma once

#include "nsvq/ops/cuda/streaming_passes.h"

namespace nsvq::blocked {

/// As of streaming_passes.h.
void search(const streaming_cuda::Inputs& in, double tau, const streaming_cuda::Found& found);
at::Tensor pull(const streaming_cuda::Inputs& in, const at::Tensor& indices,
                const at::Tensor& denominators, double tau);

}  // namespace nsvq::blocked
