#include "nsvq/ops/code_search/nearest_codes_cosine.h"

#include <torch/library.h>

#include "nsvq/core/fp32.h"
#include "nsvq/ops/code_search/code_search.h"

namespace nsvq {

torch::Tensor unit_vectors(const torch::Tensor& vectors) {
  constexpr double least = 1e-12;  // divisor of shorter vectors
  const auto wide = at_least_fp32(vectors);
  return wide / at::linalg_vector_norm(wide, 2, {1}, /*keepdim=*/true).clamp_min(least);
}

std::tuple<torch::Tensor, torch::Tensor> nearest_codes_cosine(const torch::Tensor& latents,
                                                              const torch::Tensor& codebook) {
  return nearest_codes(unit_vectors(latents), unit_vectors(codebook));
}

TORCH_LIBRARY_FRAGMENT(nsvq, m) {
  m.def(
      "nearest_codes_cosine(Tensor latents, Tensor codebook) -> (Tensor indices, Tensor "
      "distances)");
}
TORCH_LIBRARY_IMPL(nsvq, CompositeImplicitAutograd, m) {
  m.impl("nearest_codes_cosine", nearest_codes_cosine);
}

}  // namespace nsvq
