#include "nsvq/ops/code_search/code_search_reference.h"

#include <algorithm>
#include <vector>

namespace nsvq {

namespace {

/// Distances held at a time: 64 MiB in fp32.
constexpr int64_t kDistancesAtATime = int64_t{1} << 24;

void check_shapes(const torch::Tensor& latents, const torch::Tensor& codebook) {
  TORCH_CHECK(latents.dim() == 2 && codebook.dim() == 2 && latents.size(1) == codebook.size(1),
              "nearest_codes: latents must be [N, d] and codebook [K, d], but they are ",
              latents.sizes(), " and ", codebook.sizes());
  TORCH_CHECK(codebook.size(0) > 0, "nearest_codes: codebook is empty");
}

}  // namespace

torch::Tensor squared_distances(const torch::Tensor& latents, const torch::Tensor& codebook) {
  check_shapes(latents, codebook);
  const auto latent_norms = latents.square().sum(1, /*keepdim=*/true);
  const auto code_norms = codebook.square().sum(1);
  return at::addmm(code_norms + latent_norms, latents, codebook.t(), /*beta=*/1, /*alpha=*/-2);
}

torch::Tensor nearest_codes(const torch::Tensor& latents, const torch::Tensor& codebook) {
  check_shapes(latents, codebook);
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(at::isfinite(codebook).all().item<bool>(),
              "nearest_codes: codebook holds NaN or infinity");
  TORCH_CHECK(at::isfinite(latents).all().item<bool>(),
              "nearest_codes: latents hold NaN or infinity");
  // The latents' own norms are the same for every code and only cost precision: left out.
  const auto code_norms = codebook.square().sum(1);
  const int64_t rows = std::max<int64_t>(1, kDistancesAtATime / codebook.size(0));
  std::vector<torch::Tensor> indices;
  for (const auto& piece : latents.split(rows)) {
    indices.push_back(at::addmm(code_norms, piece, codebook.t(), 1, -2).argmin(1));
  }
  return at::cat(indices);
}

}  // namespace nsvq
