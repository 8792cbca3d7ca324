#include "nsvq/quantizers/replacement/replacement.h"

#include "nsvq/core/lookup.h"
#include "nsvq/quantizers/replacement/replacement.h"

namespace nsvq {

const std::vector<ReplacementKind>& replacement_kinds() {
  static const std::vector<ReplacementKind> kinds = {
      copy_replacement_kind(),
      restart_replacement_kind(),
      anchor_replacement_kind(),
  };
  return kinds;
}

std::vector<Option> replacement_options(ReplacementConfig& config) {
  std::vector<std::string> policies = {"auto", "none"};
  for (const auto& kind : replacement_kinds()) policies.push_back(kind.name);
  std::vector<Option> rows = {
      {"replacement.policy", &config.policy,
       "unused codes in stage1: copy active ones after a window, restart at latents or move to "
       "anchors after a step; auto: as the quantizer's method has it",
       Range::one_of(policies)},
      {"replacement.every_steps", &config.every_steps,
       "copy: steps of the window after which codes are replaced; 0: an epoch", Range::at_least(0)},
      {"replacement.threshold", &config.threshold,
       "a code used less often than this is replaced: copy: in a window; restart: in a step, as a "
       "running mean",
       Range::at_least(0)},
      {"replacement.decay", &config.decay, "restart, anchor: decay of the running usage",
       Range::from_to_below(0, 1)},
      {"replacement.reset_moments", &config.reset_moments, "clear Adam's moments of replaced codes",
       Range::yes_no()},
  };
  for (const auto& kind : replacement_kinds()) {
    if (!kind.options) continue;
    for (auto& row : kind.options(config)) rows.push_back(std::move(row));
  }
  return rows;
}

std::string replacement_policy(const ReplacementConfig& config, const QuantizerConfig& quantizer) {
  return config.policy == "auto" ? quantizer_kind(quantizer.type).replacement : config.policy;
}

std::string other_policy_of(const std::string& key, const std::string& policy) {
  ReplacementConfig config;
  for (const auto& kind : replacement_kinds()) {
    if (!kind.options || kind.name == policy) continue;
    for (const auto& row : kind.options(config)) {
      if (row.key == key) return kind.name;
    }
  }
  return "";
}

std::unique_ptr<Replacement> make_replacement(const ReplacementConfig& config,
                                              const QuantizerConfig& quantizer_config,
                                              Quantizer& quantizer) {
  const auto policy = replacement_policy(config, quantizer_config);
  if (policy == "none") return nullptr;
  const auto codebook = quantizer.codebook();
  if (!codebook.defined()) {
    throw UserError(
        "replacement.policy is {}, but quantizer {} has no codebook to replace codes of; set "
        "replacement.policy=auto",
        policy, quantizer_config.type);
  }
  const auto& kind = find_named(replacement_kinds(), "policy", policy, "replacement.policy");
  auto settings = config;
  settings.of<AnchorReplacementConfig>().distance = quantizer.distance();
  return kind.make(settings, codebook);
}

}  // namespace nsvq
