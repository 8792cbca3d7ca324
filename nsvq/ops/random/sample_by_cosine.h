#pragma once

#include <torch/types.h>

namespace nsvq {

/// Samples one row of latents [N, d] for each code of codebook [K, d], with probabilities
/// proportional to exp(cosine similarity): row numbers [K] int64. By rejection, without the K x N
/// matrix: a row proposed uniformly is accepted with probability exp(similarity - 1), which is at
/// least 1 / e^2, so that e proposals are usually enough. The sample depends on the seed
/// (seeded_random.h) and the code's index alone, not on the number of threads and, but for
/// rounding, not on the device.
torch::Tensor sample_by_cosine(const torch::Tensor& codebook, const torch::Tensor& latents,
                               const torch::Tensor& seed);

}  // namespace nsvq
