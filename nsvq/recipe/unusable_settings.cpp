#include "nsvq/recipe/unusable_settings.h"

#include <fmt/format.h>

#include <string>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

namespace {

/// Why model.latent_dim has to change; empty if it fits.
std::string wrong_latent_dim(const QuantizerKind& kind, const TokenizerConfig& config) {
  if (!kind.latent_dim) return "";
  const int64_t needed = kind.latent_dim(config.quantizer);
  if (needed == config.model.latent_dim) return "";
  return fmt::format("{} takes {}, a channel for each of {}", kind.name, needed, kind.channels);
}

}  // namespace

std::vector<Unusable> unusable_settings(const TokenizerConfig& config) {
  const auto& kind = quantizer_kind(config.quantizer.type);
  std::vector<Unusable> unusable;
  if (config.quantizer.rotation && !kind.rotates) {
    unusable.push_back(
        {"quantizer.rotation", "false", kind.name + " has no nearest code to rotate a latent to"});
  }
  if (const auto reason = wrong_latent_dim(kind, config); !reason.empty()) {
    unusable.push_back(
        {"model.latent_dim", std::to_string(kind.latent_dim(config.quantizer)), reason});
  }
  const auto& policy = config.replacement.policy;
  if (!kind.codebook && policy != "auto" && policy != "none") {
    unusable.push_back(
        {"replacement.policy", "auto", kind.name + " has no codebook to replace codes of"});
  }
  if (!kind.codebook && config.schedule.refit != "none") {
    unusable.push_back({"schedule.refit", "none", kind.name + " has no codebook to fit"});
  }
  if (waits_for_no_plateau(config.schedule, config.quantizer)) {
    unusable.push_back({"schedule.freeze", "never", kind.name + " has no commitment loss to watch",
                        "schedule.phases"});
  }
  if (config.dist.entropy == "all" && !kind.batch_entropy) {
    unusable.push_back({"dist.entropy", "own", kind.name + " has no entropy of a batch"});
  }
  return unusable;
}

}  // namespace nsvq
