#include "nsvq/train/vq/alarm.h"

#include <algorithm>

namespace nsvq {

namespace {

bool always(const TokenizerConfig& /*config*/) { return true; }
bool has_adversary(const TokenizerConfig& config) { return config.adversarial.weight > 0; }
bool has_perceptual(const TokenizerConfig& config) {
  return config.loss.of<PerceptualLossConfig>().weight > 0;
}

const QuantizerKind& kind_of(const TokenizerConfig& config) {
  return quantizer_kind(config.quantizer.type);
}
bool has_ns_loss(const TokenizerConfig& config) { return kind_of(config).ns_loss; }
bool lacks_ns_loss(const TokenizerConfig& config) { return !has_ns_loss(config); }
bool has_tau(const TokenizerConfig& config) {
  return has_ns_loss(config) && config.quantizer.tau_of_nearest == 0;
}
bool has_tau_of_nearest(const TokenizerConfig& config) {
  return has_ns_loss(config) && !has_tau(config);
}
bool begins_uniform(const TokenizerConfig& config) { return config.quantizer.init == "uniform"; }

/// The setting that decides how many codes there are.
std::string setting_of_codes(const TokenizerConfig& config) {
  const auto& kind = kind_of(config);
  return kind.codes_are.empty() ? "quantizer.codes" : kind.channels;
}
bool weighs_commitment(const TokenizerConfig& config) { return kind_of(config).weighs_commitment; }
bool could_replace(const TokenizerConfig& config) {
  return kind_of(config).codebook &&
         replacement_policy(config.replacement, config.quantizer) == "none";
}

/// Whether a phase with a frozen encoder follows stage1.
bool may_freeze(const TokenizerConfig& config) {
  const auto& phases = config.schedule.phases;
  return std::ranges::find(phases, "stage1") != phases.end() && phases.back() != "stage1";
}
bool freezes_by(const TokenizerConfig& config, const char* criterion) {
  return may_freeze(config) && config.schedule.freeze == criterion;
}
bool freezes_by_plateau(const TokenizerConfig& config) { return freezes_by(config, "plateau"); }
bool freezes_by_epoch(const TokenizerConfig& config) { return freezes_by(config, "epoch"); }
bool freezes_never(const TokenizerConfig& config) { return freezes_by(config, "never"); }
bool has_stage1_last(const TokenizerConfig& config) {
  return config.schedule.phases.back() == "stage1";
}

struct Remedy {
  const char* sign;
  const char* text;
  bool (*helps)(const TokenizerConfig&);
  std::string (*setting)(const TokenizerConfig&) = nullptr;  ///< named behind the text; null: none
};

constexpr Remedy kRemedies[] = {
    {"diverging", "a new run with a lower optimizer.lr", always},
    {"diverging", "a smaller adversarial.weight or a later adversarial.start_step", has_adversary},

    {"unused_codes", "quantizer.type: nsvq", lacks_ns_loss},
    {"unused_codes", "a larger quantizer.alpha", has_ns_loss},
    {"unused_codes", "replacement.policy: copy", could_replace},
    {"unused_codes", "a smaller loss.perceptual, which drives the latents away from the codes",
     has_perceptual},
    {"unused_codes", "fewer codes", always, setting_of_codes},

    {"losing_codes", "an encoder that freezes earlier (schedule.latest_epoch)", freezes_by_plateau},
    {"losing_codes", "an encoder that freezes earlier (schedule.freeze_epoch)", freezes_by_epoch},
    {"losing_codes", "an encoder that freezes (schedule.freeze)", freezes_never},
    {"losing_codes", "a phase with a frozen encoder (schedule.phases)", has_stage1_last},
    {"losing_codes", "replacement.policy: copy", could_replace},
    {"losing_codes", "a lower optimizer.lr", always},

    {"latent_norm",
     "a smaller loss.perceptual, which causes this when it outweighs the other terms",
     has_perceptual},
    {"latent_norm", "a larger quantizer.beta", weighs_commitment},
    {"latent_norm", "a lower optimizer.lr", always},

    {"one_hot", "a larger quantizer.tau", has_tau},
    {"one_hot", "a larger quantizer.tau_of_nearest", has_tau_of_nearest},
    {"one_hot", "a smaller loss.perceptual, if the latents' norm has grown", has_perceptual},

    {"uniform", "a smaller quantizer.tau", has_tau},
    {"uniform", "a smaller quantizer.tau_of_nearest", has_tau_of_nearest},
    {"uniform", "quantizer.init: gaussian or data", begins_uniform},
};

}  // namespace

std::string remedies(const std::string& sign, const TokenizerConfig& config) {
  std::string all;
  for (const auto& remedy : kRemedies) {
    if (remedy.sign != sign || !remedy.helps(config)) continue;
    all += (all.empty() ? "" : "; ") + std::string(remedy.text);
    if (remedy.setting) all += " (" + remedy.setting(config) + ")";
  }
  return all;
}

}  // namespace nsvq
