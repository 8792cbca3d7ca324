#include "nsvq/quantizers/anchor_replacement.h"

#include <algorithm>
#include <vector>

#include "nsvq/ops/code_usage.h"
#include "nsvq/ops/cosine.h"
#include "nsvq/quantizers/random_draws.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

torch::Tensor choose_anchors(const torch::Tensor& codebook, const torch::Tensor& latents,
                             const std::string& choice, uint64_t seed) {
  if (choice == "closest") return latents.index_select(0, most_similar(codebook, latents));
  const auto generator = generator_on(latents.device(), seed);
  if (choice == "random") return draw_rows(latents, codebook.size(0), generator);
  return latents.index_select(0, draw_by_similarity(codebook, latents, generator));
}

}  // namespace

torch::Tensor draw_by_similarity(const torch::Tensor& codebook, const torch::Tensor& latents,
                                 const at::Generator& generator) {
  constexpr int64_t similarities_at_a_time = int64_t{1} << 24;
  const int64_t n = latents.size(0);
  const auto others = unit_vectors(latents).t();
  std::vector<torch::Tensor> drawn;
  for (const auto& codes :
       unit_vectors(codebook).split(std::max(int64_t{1}, similarities_at_a_time / n))) {
    // By inverse transform; the weights lie between 1 / e and e.
    const auto total = at::mm(codes, others).exp_().cumsum(1);
    const auto draws =
        at::rand({codes.size(0), 1}, generator, codes.options()) * total.slice(1, n - 1, n);
    drawn.push_back(at::searchsorted(total, draws, /*out_int32=*/false, /*right=*/true).flatten());
  }
  return at::cat(drawn).clamp_max(n - 1);  // a draw may be rounded up to the total
}

torch::Tensor most_similar(const torch::Tensor& codebook, const torch::Tensor& latents) {
  // Of unit vectors the nearest is the most similar.
  return nearest_without_waiting(unit_vectors(codebook), unit_vectors(latents), {});
}

AnchorReplacement::AnchorReplacement(const ReplacementConfig& config, const torch::Tensor& codebook)
    : config_(config),
      share_(at::zeros({codebook.size(0)}, at::device(codebook.device()).dtype(at::kFloat))) {}

torch::Tensor AnchorReplacement::after_step(torch::Tensor codebook, const TakenStep& step) {
  const torch::NoGradGuard no_grad;
  const int64_t codes = codebook.size(0);
  auto counts = code_usage(step.indices, codes).to(at::kFloat);
  step.group.sum({counts});
  share_.mul_(config_.decay).add_(counts / counts.sum().clamp_min(1), 1 - config_.decay);

  const double slope = 10 * static_cast<double>(codes) / (1 - config_.decay);
  const auto way = (share_ * -slope - 1e-3).exp();
  const auto latents = step.latents.to(codebook.scalar_type());
  auto anchors = choose_anchors(codebook, latents, config_.anchor, step.seed);
  step.group.broadcast({anchors});
  codebook.copy_(at::lerp(codebook, anchors, way.to(codebook.scalar_type()).unsqueeze(1)));
  return way.gt(0.01);
}

}  // namespace nsvq
