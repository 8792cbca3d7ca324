#include "nsvq/quantizers/search.h"

#include <fmt/format.h>

#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"

namespace nsvq {

namespace {

/// Why the streaming operators are not used; empty if they are.
std::string reason_against_streaming(int64_t dimension, const QuantizerConfig& config) {
  constexpr int64_t widest = 65536;  // of the blocked products on a GPU
  if (config.operators != "streaming") {
    return fmt::format("quantizer.operators is {}", config.operators);
  }
  if (dimension > widest) return fmt::format("d = {} is above {}", dimension, widest);
  return {};
}

/// The streaming operators are made for single precision and below.
bool streams(const torch::Tensor& latents, const QuantizerConfig& config) {
  return latents.scalar_type() != at::kDouble && uses_streaming_search(latents.size(1), config);
}

}  // namespace

std::string reason_against_graphs(int64_t dimension, const QuantizerConfig& config) {
  const auto reason = reason_against_streaming(dimension, config);
  return reason.empty() ? "" : "the plain search synchronises with the host (" + reason + ")";
}

bool uses_streaming_search(int64_t dimension, const QuantizerConfig& config) {
  return reason_against_streaming(dimension, config).empty();
}

torch::Tensor nearest_indices(const torch::Tensor& latents, const torch::Tensor& codebook,
                              const QuantizerConfig& config, NonFinite policy) {
  const torch::NoGradGuard no_grad;
  if (!streams(latents, config)) return nearest_codes_reference(latents, codebook);
  const auto indices = std::get<0>(nearest_codes(latents, codebook));
  if (policy == NonFinite::ignore) return indices.clamp_min(0);
  if (policy == NonFinite::error && !indices.is_cpu()) throw_if_marked(indices);
  return indices;
}

torch::Tensor with_policy(const torch::Tensor& indices, const torch::Tensor& latents,
                          NonFinite policy) {
  if (latents.is_cpu()) {
    TORCH_CHECK(at::isfinite(latents).all().item<bool>(), "quantizer: a latent is not finite");
    return indices;
  }
  if (policy == NonFinite::ignore) return indices;
  const auto marked = at::where(at::isfinite(latents).all(1), indices, -1);
  if (policy == NonFinite::error) throw_if_marked(marked);
  return marked;
}

void throw_if_marked(const torch::Tensor& indices) {
  TORCH_CHECK(indices.numel() == 0 || indices.min().item<int64_t>() >= 0,
              "nearest_indices: a latent or a code is not finite");
}

NeighbourSearch search_with_neighbours(const torch::Tensor& latents, const torch::Tensor& codebook,
                                       double tau, const QuantizerConfig& config) {
  const auto fixed = latents.detach();
  if (!streams(latents, config)) {
    const auto indices = nearest_indices(fixed, codebook, config, NonFinite::error);
    return {indices, ns_loss_reference(fixed, codebook, indices, tau)};
  }
  const auto found = ns_quantize(fixed, codebook, tau);
  return {found.indices.clamp_min(0), found.loss};
}

}  // namespace nsvq
