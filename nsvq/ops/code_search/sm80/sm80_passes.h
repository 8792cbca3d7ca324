// The passes over tiles (tile_layout.h) by mma.sync and cp.async, for compute capability 8.0 and
// up.
//
// They read the tiles, and write the candidates, sums and gradients, of the kernels for Hopper: the
// error bounds of tile_layout.h hold for them, since mma.sync.m16n8k16 adds its 16 products in one
// go or in two of 8. All else, exact distances and crowds, is done by the same kernels.
//
// `shared_limit`: the bytes of shared memory that a block may have.
#pragma once

#include "nsvq/ops/code_search/crowds/crowds.h"

namespace nsvq::sm80 {

/// Latents of a block in the first pass.
int64_t block_latents(int64_t dimension);

void run_search_pass(const SearchPass& pass, int64_t dimension, int64_t shared_limit,
                     cudaStream_t stream);
void mark_crowds(const Problem& problem, int64_t shared_limit, cudaStream_t stream);
void run_codebook_grad_pass(const GradPass& pass, int splits, int64_t shared_limit,
                            cudaStream_t stream);

}  // namespace nsvq::sm80
