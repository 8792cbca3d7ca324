#include "nsvq/quantizers/losses_of_codes.h"

#include <algorithm>

#include "nsvq/quantizers/codebook.h"

namespace nsvq {

namespace {

constexpr double kLeastSquare = 1e-30;  // of variances, so that 0 / 0 is 0

/// [d, d] of latents [N, d], over N.
torch::Tensor covariance(const torch::Tensor& latents) {
  const auto centred = latents - latents.mean(0);
  return centred.t().matmul(centred) / static_cast<double>(latents.size(0));
}

/// Mean of the squared correlations of two different channels. A channel without variance is
/// correlated with none.
torch::Tensor mean_squared_correlation(const torch::Tensor& covariance) {
  const auto scales = covariance.diagonal().clamp_min(1e-12).rsqrt();
  const auto correlations = covariance * scales.unsqueeze(0) * scales.unsqueeze(1);
  const int64_t d = covariance.size(0), pairs = d * (d - 1) / 2;
  return correlations.triu(1).square().sum() / static_cast<double>(std::max<int64_t>(1, pairs));
}

/// tr(C)^2 and tr(C^2). Their ratio, the participation ratio, is d at equal variances in all
/// directions and 1 with one direction.
struct Traces {
  torch::Tensor squared, of_square;
};

Traces traces_of(const torch::Tensor& covariance) {
  // The gradient of trace() makes the host wait for a GPU.
  return {covariance.diagonal().sum().square(), covariance.square().sum()};
}

}  // namespace

void penalise_latents(const torch::Tensor& latents, const LatentPenalties& weights,
                      Quantized& quantized) {
  if (weights.decorrelation == 0 && weights.participation == 0) return;
  const auto spread = covariance(flatten_latents(latents));
  if (weights.decorrelation > 0) {
    const auto correlation = mean_squared_correlation(spread);
    quantized.loss = quantized.loss + weights.decorrelation * correlation;
    quantized.terms["correlation"] = correlation.detach();
  }
  if (weights.participation > 0) {
    const auto [squared, of_square] = traces_of(spread);
    const auto concentration = of_square / squared.clamp_min(kLeastSquare);
    quantized.loss = quantized.loss + weights.participation * concentration;
    quantized.terms["participation"] = (squared / of_square.clamp_min(kLeastSquare)).detach();
  }
}

}  // namespace nsvq
