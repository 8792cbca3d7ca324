#include "nsvq/quantizers/search.h"

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"

namespace nsvq {

namespace {

/// The streaming operators are made for single precision and below, and for these widths.
bool streams(const torch::Tensor& latents, const QuantizerConfig& config) {
  return latents.scalar_type() != at::kDouble && search_streams(latents.size(1), config);
}

}  // namespace

bool search_streams(int64_t dimension, const QuantizerConfig& config) {
  constexpr int64_t widest = 1024;
  return config.operators == "streaming" && dimension <= widest;
}

torch::Tensor nearest_indices(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config) {
  auto indices = nearest_or_none(latents, codebook, config);
  if (!indices.is_cpu()) require_found(indices);  // a CPU has looked already
  return indices;
}

torch::Tensor nearest_or_none(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config) {
  const torch::NoGradGuard no_grad;
  if (!streams(latents, config)) return nearest_codes_reference(latents, codebook);
  return std::get<0>(nearest_codes(latents, codebook));
}

void require_found(const torch::Tensor& indices) {
  TORCH_CHECK(indices.numel() == 0 || indices.min().item<int64_t>() >= 0,
              "nearest_indices: a latent or a code is not finite");
}

torch::Tensor nearest_without_waiting(const torch::Tensor& latents, const torch::Tensor& codebook,
                                      const QuantizerConfig& config) {
  const torch::NoGradGuard no_grad;
  if (!streams(latents, config)) return nearest_codes_reference(latents, codebook);
  return std::get<0>(nearest_codes(latents, codebook)).clamp_min(0);
}

void require_latents_finite(const torch::Tensor& latents) {
  TORCH_CHECK(!latents.is_cpu() || at::isfinite(latents).all().item<bool>(),
              "quantizer: a latent is not finite");
}

torch::Tensor none_if_not_finite(const torch::Tensor& indices, const torch::Tensor& latents) {
  require_latents_finite(latents);
  return latents.is_cpu() ? indices : at::where(at::isfinite(latents).all(1), indices, -1);
}

NeighbourSearch search_with_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                       const QuantizerConfig& config) {
  if (!streams(latents, config)) {
    const auto indices = nearest_indices(latents.detach(), codebook, config);
    return {indices, ns_loss_reference(latents, codebook, indices, config.tau)};
  }
  const auto found = ns_quantize(latents.detach(), codebook, config.tau);
  return {found.indices.clamp_min(0), found.loss};
}

}  // namespace nsvq
