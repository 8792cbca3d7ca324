#include "nsvq/quantizers/neighbour_loss.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/ops/code_statistics/code_sums.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

constexpr double kShareOfStep = 0.1;  // of a step's mean distance in the running mean

/// By which a sum over latents becomes a mean over their numbers.
double count_of(const torch::Tensor& latents) {
  return static_cast<double>(std::max<int64_t>(1, latents.numel()));
}

/// L2 norm, in fp64: gradients of codes that win nothing are small.
torch::Tensor wide_norm(const torch::Tensor& tensor) { return tensor.to(at::kDouble).norm(); }

/// Gradient [K, d] of the embedding term for the codes.
torch::Tensor embedding_gradient(const torch::Tensor& latents, const torch::Tensor& codes,
                                 const torch::Tensor& indices) {
  const auto differences = codes_of(codes.detach(), indices) - latents;
  return code_sums(differences.to(at::kFloat), indices, codes.size(0)) * (2 / count_of(latents));
}

}  // namespace

NeighbourLoss::NeighbourLoss(const QuantizerConfig& config, torch::nn::Module& owner)
    : config_(config) {
  if (config.tau_of_nearest > 0) {
    nearest_ = owner.register_buffer("nearest_distance", at::zeros({}));
  }
}

/// tau as a scalar on the latents' device; undefined: quantizer.tau, which the host knows.
torch::Tensor NeighbourLoss::temperature(const torch::Tensor& latents) const {
  if (!nearest_.defined()) return {};
  // Within these bounds fp32 holds the squares of what is scaled by it.
  const auto relative = (config_.tau_of_nearest * nearest_).clamp(1e-20, 1e30);
  return relative.masked_fill(nearest_.eq(0), config_.tau).to(latents);
}

NeighbourLoss::Found NeighbourLoss::search(const torch::Tensor& latents,
                                           const torch::Tensor& codes) const {
  auto tau = temperature(latents);
  if (config_.kernel == "gaussian") {
    const auto indices = nearest_indices(latents, codes, config_, NonFinite::ignore);
    if (!tau.defined()) tau = at::full({}, config_.tau, latents.options());
    return {indices, gaussian_ns_loss(latents, codes, indices, tau)};
  }
  if (!tau.defined()) {
    const auto found = search_with_neighbours(latents, codes, config_.tau, config_);
    return {found.indices, found.ns};
  }
  // The operators take tau from the host, which must not wait for it: what they are given is scaled
  // to a temperature of 1.
  const auto scale = tau.rsqrt();
  const auto found = search_with_neighbours(latents * scale, codes * scale, 1, config_);
  return {found.indices, found.ns * tau};
}

/// What multiplies the NS loss.
torch::Tensor NeighbourLoss::weight(const Found& found, const torch::Tensor& latents,
                                    const torch::Tensor& codes) const {
  const auto gradients = torch::autograd::grad({found.ns}, {codes}, {}, /*retain_graph=*/true);
  const auto embedding = wide_norm(embedding_gradient(latents, codes, found.indices));
  // Amplified without bound, the rounding of a softmax that is one-hot would move codes.
  const auto ns = at::maximum(wide_norm(gradients.front()), embedding * 1e-6).clamp_min(1e-300);
  return (config_.alpha * embedding / ns).to(latents.scalar_type());
}

Quantized NeighbourLoss::fit(const torch::Tensor& codes, const torch::Tensor& latents,
                             const QuantizerStep& step) const {
  const auto flat = flatten_latents(latents).detach();
  const auto found = search(flat, codes);
  const auto indices = to_grid(found.indices, latents);
  auto result = fit_codes(look_up(codes, indices), indices, latents, config_, step);
  if (config_.alpha_relative && found.ns.requires_grad()) {
    const auto alpha = weight(found, flat, codes);
    result.loss = result.loss + alpha * found.ns;
    result.terms["ns_weight"] = alpha;
  } else {
    result.loss = result.loss + config_.alpha * found.ns;
  }
  result.terms["ns"] = found.ns.detach();
  return result;
}

void NeighbourLoss::update(const torch::Tensor& codes, const StepOutputs& step) {
  const torch::NoGradGuard no_grad;
  const auto distances =
      (step.latents.to(codes.scalar_type()) - codes_of(codes, step.indices)).square().sum(1);
  const auto sum = distances.sum(at::kDouble);
  const auto sums = at::stack({sum, at::full_like(sum, distances.size(0))});
  step.group.sum({sums});
  const auto now = (sums[0] / sums[1]).to(nearest_.scalar_type());  // NaN without latents
  const auto moved = at::where(nearest_.gt(0), nearest_.lerp(now, kShareOfStep), now);
  nearest_.copy_(at::where(at::isfinite(now), moved, nearest_));
}

std::vector<torch::Tensor> NeighbourLoss::statistics() const {
  if (!nearest_.defined()) return {};
  return {nearest_};
}

torch::Tensor gaussian_ns_loss(const torch::Tensor& latents, const torch::Tensor& codes,
                               const torch::Tensor& indices, const torch::Tensor& tau) {
  const auto fixed = codes.detach();
  torch::Tensor loss, gradient;
  {
    const torch::NoGradGuard no_grad;
    const int64_t chunk = rows_at_a_time(codes.size(0));
    loss = at::zeros({}, latents.options().dtype(at::kDouble));
    auto mass = at::zeros({codes.size(0)}, latents.options());
    auto pulls = at::zeros_like(fixed);  // sum_i w_ij z_i
    const auto pieces = latents.split(chunk), winners = indices.split(chunk);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const auto distances = squared_distances(pieces[i], fixed).clamp_min_(0);
      const auto weights = (distances / -tau).exp_().scatter_(1, winners[i].unsqueeze(1), 0);
      loss += (weights * distances).sum(at::kDouble);
      mass += weights.sum(0);
      pulls.addmm_(weights.t(), pieces[i]);
    }
    const double count = count_of(latents);
    loss = (loss / count).to(latents.scalar_type());
    gradient = (mass.unsqueeze(1) * fixed - pulls) * (2 / count);
  }
  return loss + ((codes - fixed) * gradient).sum();  // what is added is zero
}

}  // namespace nsvq
