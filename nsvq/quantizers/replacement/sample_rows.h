#pragma once

#include <torch/types.h>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Rows [count, d] drawn from rows [N, d] without replacement. Where N is less than `count`, the
/// rows are repeated, each with noise N(0, (0.01 / sqrt d)^2), as in Jukebox, so that copies
/// differ. The seed is one of nsvq/ops/random/seeded_random.h, on the rows' device.
torch::Tensor sample_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed);

/// sample_rows over the rows of all ranks, which bring equally many: every rank gets what one
/// process with all rows would draw. Only drawn rows are sent.
torch::Tensor sample_rows(const torch::Tensor& rows, int64_t count, const torch::Tensor& seed,
                          Group& group);

/// Samples one row of latents [N, d] for each code of codebook [K, d], with probabilities
/// proportional to exp(-|z - c|^2): row numbers [K] int64, by some codes at a time, so that no
/// K x N matrix is held. Unlike cosines, distances have no bound by which to accept or reject.
torch::Tensor sample_by_distance(const torch::Tensor& codebook, const torch::Tensor& latents,
                                 const torch::Tensor& seed);

}  // namespace nsvq
