// The passes of the operators on a GPU by the kernels for Hopper (tile_layout.h).
#pragma once

#include "nsvq/ops/code_search/gpu_passes.h"

namespace nsvq::hopper {

/// The functions of gpu_passes.h on tiles.
void search(const code_search_cuda::Inputs& in, double tau, const code_search_cuda::Found& found);
at::Tensor codebook_grad(const code_search_cuda::Inputs& in, const at::Tensor& indices,
                         const at::Tensor& denominators, double tau);

/// Packs latents and codes once for both.
at::Tensor search_with_grad(const code_search_cuda::Inputs& in, double tau,
                            const code_search_cuda::Found& found);

}  // namespace nsvq::hopper
