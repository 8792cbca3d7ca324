#include "nsvq/ops/code_search/code_search_reference.h"

#include <algorithm>
#include <vector>

#include "nsvq/ops/common/check_codes.h"

namespace nsvq {

namespace {

/// Distances held at a time: 64 MiB in fp32.
constexpr int64_t kDistancesAtATime = int64_t{1} << 24;

}  // namespace

torch::Tensor squared_distances(const torch::Tensor& latents, const torch::Tensor& codebook) {
  check_codes("squared_distances", latents, codebook);
  const auto latent_norms = latents.square().sum(1, /*keepdim=*/true);
  const auto code_norms = codebook.square().sum(1);
  return at::addmm(code_norms + latent_norms, latents, codebook.t(), /*beta=*/1, /*alpha=*/-2);
}

torch::Tensor nearest_codes_reference(const torch::Tensor& latents, const torch::Tensor& codebook) {
  check_codes("nearest_codes", latents, codebook);
  const torch::NoGradGuard no_grad;
  TORCH_CHECK(at::isfinite(codebook).all().item<bool>(),
              "nearest_codes: codebook holds NaN or infinity");
  TORCH_CHECK(at::isfinite(latents).all().item<bool>(),
              "nearest_codes: latents hold NaN or infinity");
  // The latents' own norms are equal for every code and only cost precision: left out.
  const auto code_norms = codebook.square().sum(1);
  const int64_t rows = std::max<int64_t>(1, kDistancesAtATime / codebook.size(0));
  std::vector<torch::Tensor> indices;
  for (const auto& piece : latents.split(rows)) {
    indices.push_back(at::addmm(code_norms, piece, codebook.t(), 1, -2).argmin(1));
  }
  return at::cat(indices);
}

std::tuple<torch::Tensor, torch::Tensor> nearest_codes_fp64(const torch::Tensor& latents,
                                                            const torch::Tensor& codebook) {
  const torch::NoGradGuard no_grad;
  const auto z = latents.to(at::kDouble), c = codebook.to(at::kDouble);
  auto indices = at::empty({z.size(0)}, at::kLong), distances = at::empty({z.size(0)}, at::kFloat);
  for (int64_t i = 0; i < z.size(0); ++i) {
    // sum() adds in an order that depends on the shape; cumsum() does not.
    const auto of_all = (z[i] - c).square().cumsum(1).select(1, -1);
    const auto least = of_all.argmin().item<int64_t>();
    indices[i] = least;
    distances[i] = of_all[least];
  }
  return {indices, distances};
}

torch::Tensor ns_loss_reference(const torch::Tensor& latents, const torch::Tensor& codebook,
                                const torch::Tensor& indices, double tau) {
  check_tau("ns_loss", tau);
  check_indices("ns_loss", indices, latents);
  if (latents.numel() == 0) return codebook.sum() * 0;
  const auto distances = squared_distances(latents.detach(), codebook);
  const auto weights =
      at::softmax(distances.detach() / -tau, 1).scatter(1, indices.unsqueeze(1), 0);
  return (weights * distances).sum() / latents.numel();
}

}  // namespace nsvq
