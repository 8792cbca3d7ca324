#pragma once

#include <torch/types.h>

namespace nsvq {

/// Positions [K] in latents [N, d]: for each code of codebook [K, d] one drawn with chances
/// proportional to exp(cosine similarity). By rejection, without the K x N matrix: a latent taken
/// at random is kept with chance exp(similarity - 1), at least 1 / e^2, and e times as a rule are
/// enough. What is drawn depends on the seed (as in seeded_values.h) and the code's place alone, so
/// it is the same for any number of threads and, but for rounding, on every device.
torch::Tensor draw_by_similarity(const torch::Tensor& codebook, const torch::Tensor& latents,
                                 const torch::Tensor& seed);

}  // namespace nsvq
