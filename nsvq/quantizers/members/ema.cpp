#include "nsvq/quantizers/members/ema.h"

#include "nsvq/ops/code_statistics/code_sums.h"
#include "nsvq/ops/code_statistics/code_usage.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/losses_of_codes.h"
#include "nsvq/quantizers/members.h"

namespace nsvq {

/// A code starts as the mean of one latent that is itself. Counts of zero would divide the sum of a
/// code that no latent chose by the smoothing alone and throw it away.
EmaQuantizer::EmaQuantizer(const QuantizerConfig& config, int64_t latent_dim)
    : VectorQuantizer(config, latent_dim, MovedBy::statistics),
      settings_(config.of<RunningMeansConfig>()),
      counts_(register_buffer("counts", at::ones({config.codes}))),
      sums_(register_buffer("sums", codebook_.clone())) {}

Quantized EmaQuantizer::quantize_wide(const torch::Tensor& latents, const QuantizerStep& step) {
  const auto z = scaled(latents), codes = scaled(codebook_);
  const auto indices = to_grid(search(flatten_latents(z), codes, NonFinite::ignore), latents);
  return commit_to_codes(look_up(codes, indices), indices, z, config_, step);
}

void EmaQuantizer::update_statistics(const StepOutputs& step) {
  const torch::NoGradGuard no_grad;
  const auto& [decay, smoothing] = settings_;
  auto counts = code_usage(step.indices, codes()).to(counts_.scalar_type());
  auto sums = code_sums(scaled(step.latents), step.indices, codes()).to(sums_.scalar_type());
  step.group.sum({counts, sums});
  counts_.mul_(decay).add_(counts, 1 - decay);
  sums_.mul_(decay).add_(sums, 1 - decay);

  constexpr double least = 1e-12;  // what is divided by without smoothing
  const auto total = counts_.sum();
  const auto shares = (counts_ + smoothing) / (total + smoothing * static_cast<double>(codes()));
  codebook_.copy_(sums_ / (shares * total).clamp_min(least).unsqueeze(1));
}

/// Sums begin anew: with the old ones the next step would bring the old code back.
void EmaQuantizer::rows_replaced(const torch::Tensor& rows) {
  const torch::NoGradGuard no_grad;
  counts_.masked_fill_(rows, 1);
  sums_.copy_(at::where(rows.unsqueeze(1), codebook_, sums_));
}

void EmaQuantizer::initialise_from(const torch::Tensor& latents, uint64_t seed) {
  VectorQuantizer::initialise_from(latents, seed);
  rows_replaced(at::ones_like(counts_, at::kBool));
}

std::vector<Option> running_means_options(QuantizerConfig& config) {
  auto& ema = config.of<RunningMeansConfig>();
  return {
      {"quantizer.ema.decay", &ema.decay, "ema, jukebox, soundstream: decay of the running means",
       Range::from_to_below(0, 1)},
      {"quantizer.ema.smoothing", &ema.smoothing, "count added to each code before the division",
       Range::at_least(0)},
  };
}

QuantizerKind ema_kind() {
  return {.name = "ema",
          .summary = "codes as running means of their latents, as in VQ-VAE",
          .make = make_member<EmaQuantizer>,
          .options = running_means_options,
          .defaults = {"quantizer.init=normal"}};
}

QuantizerKind jukebox_kind() {
  return {.name = "jukebox",
          .summary = "ema from latents, unused codes restarted at latents",
          .make = make_member<EmaQuantizer>,
          .options = running_means_options,
          .defaults = {"quantizer.init=data"},
          .replacement = "restart"};
}

}  // namespace nsvq
