#include "nsvq/quantizers/losses_of_codes.h"

namespace nsvq {

namespace {

constexpr double kLeastNorm = 1e-6;  // what a vector is divided by is no less

torch::Tensor norm_of(const torch::Tensor& vectors) {
  return at::linalg_vector_norm(vectors, 2, 1, /*keepdim=*/true);
}

torch::Tensor direction_of(const torch::Tensor& vectors) {
  return vectors / norm_of(vectors).clamp_min(kLeastNorm);
}

torch::Tensor inner_product(const torch::Tensor& a, const torch::Tensor& b) {
  return (a * b).sum(1, /*keepdim=*/true);
}

}  // namespace

torch::Tensor straight_through(const torch::Tensor& codes, const torch::Tensor& latents) {
  return codes.detach() + (latents - latents.detach());  // what is added is zero
}

torch::Tensor rotate_through(const torch::Tensor& codes, const torch::Tensor& latents) {
  const auto code = codes.detach(), latent = latents.detach();
  const auto from = direction_of(latent), to = direction_of(code);
  const auto between = direction_of(from + to);
  const auto scale = norm_of(code) / norm_of(latent).clamp_min(kLeastNorm);
  const auto rotated = latents - 2 * between * inner_product(between, latents) +
                       2 * to * inner_product(from, latents);
  return straight_through(codes, scale * rotated);
}

torch::Tensor pass_through(const torch::Tensor& codes, const torch::Tensor& latents,
                           const QuantizerConfig& config) {
  return config.rotation ? rotate_through(codes, latents) : straight_through(codes, latents);
}

Quantized commit_to_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                          const torch::Tensor& latents, const QuantizerConfig& config,
                          const QuantizerStep& step) {
  const auto commitment = at::mse_loss(latents, codes.detach());
  Quantized result;
  result.loss = step.commitment ? config.beta * commitment : at::zeros_like(commitment);
  result.terms = {{"commitment", commitment.detach()}};
  result.indices = indices;
  result.latents = pass_through(codes, latents, config);
  return result;
}

Quantized fit_codes(const torch::Tensor& codes, const torch::Tensor& indices,
                    const torch::Tensor& latents, const QuantizerConfig& config,
                    const QuantizerStep& step) {
  auto result = commit_to_codes(codes, indices, latents, config, step);
  const auto embedding = at::mse_loss(codes, latents.detach());
  result.loss = embedding + result.loss;
  result.terms["embedding"] = embedding.detach();
  return result;
}

}  // namespace nsvq
