// The passes of the operators on a GPU by blocked matrix products (blocked.h).
#pragma once

#include "nsvq/ops/code_search/gpu_passes.h"

namespace nsvq::blocked {

/// The functions of gpu_passes.h by blocked products.
void search(const code_search_cuda::Inputs& in, double tau, const code_search_cuda::Found& found);
at::Tensor codebook_grad(const code_search_cuda::Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau);

}  // namespace nsvq::blocked
