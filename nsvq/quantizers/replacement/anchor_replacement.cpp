#include "nsvq/core/tensor_map.h"
#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/ops/random/sample_by_cosine.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/quantizers/replacement/sample_rows.h"
#include "nsvq/quantizers/search.h"

namespace nsvq {

namespace {

/// CVQ-VAE (clustering VQ): after each step, every code moves towards an anchor, a latent of
/// rank 0's batch, the further the less it is used: c <- (1 - a) c + a anchor, where
/// a = exp(-10 K p / (1 - decay) - 1e-3) and p is the running share of latents that chose the code.
/// Anchors (replacement.anchor) are drawn by the softmax over the batch of cosine similarity, or of
/// squared distances with a minus ("sampled"), the closest latent ("closest"), or any latent
/// ("random").
class AnchorReplacement : public Replacement {
 public:
  AnchorReplacement(const ReplacementConfig& config, const torch::Tensor& codebook);

  /// The rows it returns are those that moved by more than a hundredth of the way.
  bool acts_after_steps() const override { return true; }
  torch::Tensor after_step(torch::Tensor codebook, const StepOutputs& step) override;
  TensorMap state() override { return {{"share", share_}}; }

 private:
  double decay_;
  AnchorReplacementConfig settings_;
  torch::Tensor share_;  ///< [K]
};

torch::Tensor closest(const torch::Tensor& codebook, const torch::Tensor& latents,
                      Distance distance) {
  if (distance == Distance::cosine) return most_similar(codebook, latents);
  return nearest_indices(codebook, latents, {}, NonFinite::ignore);
}

/// From the latents of all ranks; all choose alike.
torch::Tensor choose_anchors(const torch::Tensor& codebook, const torch::Tensor& own,
                             const AnchorReplacementConfig& settings, const torch::Tensor& seed,
                             Group& group) {
  if (settings.anchor == "random") return sample_rows(own, codebook.size(0), seed, group);
  const auto latents = group.size() == 1 ? own : gather(group, own).flatten(0, 1);
  if (settings.anchor == "closest") {
    return latents.index_select(0, closest(codebook, latents, settings.distance));
  }
  const auto drawn = settings.distance == Distance::cosine
                         ? sample_by_cosine(codebook, latents, seed)
                         : sample_by_distance(codebook, latents, seed);
  return latents.index_select(0, drawn);
}

std::vector<Option> anchor_options(ReplacementConfig& config) {
  return {{"replacement.anchor", &config.of<AnchorReplacementConfig>().anchor,
           "anchor: latents drawn by closeness, the closest, or any",
           Range::one_of({"sampled", "closest", "random"})}};
}

}  // namespace

ReplacementKind anchor_replacement_kind() {
  return {.name = "anchor",
          .make =
              [](const ReplacementConfig& config, const torch::Tensor& codebook) {
                return std::make_unique<AnchorReplacement>(config, codebook);
              },
          .options = anchor_options};
}

torch::Tensor most_similar(const torch::Tensor& codebook, const torch::Tensor& latents) {
  // The nearest of unit vectors is the most similar one.
  return nearest_indices(unit_vectors(codebook), unit_vectors(latents), {}, NonFinite::ignore);
}

AnchorReplacement::AnchorReplacement(const ReplacementConfig& config, const torch::Tensor& codebook)
    : decay_(config.decay),
      settings_(config.of<AnchorReplacementConfig>()),
      share_(at::zeros({codebook.size(0)}, at::device(codebook.device()).dtype(at::kFloat))) {}

torch::Tensor AnchorReplacement::after_step(torch::Tensor codebook, const StepOutputs& step) {
  const torch::NoGradGuard no_grad;
  const int64_t codes = codebook.size(0);
  auto counts = code_usage(step.indices, codes).to(at::kFloat);
  step.group.sum({counts});
  share_.mul_(decay_).add_(counts / counts.sum().clamp_min(1), 1 - decay_);

  const double slope = 10 * static_cast<double>(codes) / (1 - decay_);
  const auto way = (share_ * -slope - 1e-3).exp();
  const auto latents = step.latents.to(codebook.scalar_type());
  const auto anchors = choose_anchors(codebook, latents, settings_, step.seed, step.group);
  codebook.copy_(at::lerp(codebook, anchors, way.to(codebook.scalar_type()).unsqueeze(1)));
  return way.gt(0.01);
}

}  // namespace nsvq
