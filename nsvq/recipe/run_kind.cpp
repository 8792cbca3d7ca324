#include "nsvq/recipe/run_kind.h"

#include <algorithm>
#include <cstddef>

namespace nsvq {

const std::vector<RunKindInfo>& run_kinds() {
  static const std::vector<RunKindInfo> kinds = {
      {.kind = RunKind::tokenizer,
       .name = "tokenizer",
       .trained = "a tokenizer (nsvq train)",
       .command = "nsvq train",
       .sections = {"model", "quantizer", "loss", "adversarial", "replacement", "schedule", "drift",
                    "alarm"},
       .settings_key = kModelConfigKey,
       .reconstructs = true},
      {.kind = RunKind::diffusion,
       .name = "diffusion",
       .trained = "latent diffusion (nsvq diffusion)",
       .command = "nsvq diffusion train",
       .sections = {"diffusion", "unet", "sample"},
       .settings_key = kDiffusionConfigKey,
       .loss = "loss"},
      {.kind = RunKind::generator,
       .name = "generator",
       .trained = "a generator of tokens (nsvq generate)",
       .command = "nsvq generate train",
       .sections = {"generator", "sampling"},
       .settings_key = kGeneratorConfigKey,
       .loss = "loss"},
  };
  return kinds;
}

const RunKindInfo& run_kind(RunKind kind) { return run_kinds().at(static_cast<size_t>(kind)); }

bool is_loss_column(const std::string& name) {
  return std::any_of(run_kinds().begin(), run_kinds().end(),
                     [&](const auto& info) { return !info.loss.empty() && info.loss == name; });
}

RunKind kind_of_settings(const std::vector<YamlSetting>& settings) {
  const auto has_section = [&](const std::string& section) {
    return std::any_of(settings.begin(), settings.end(),
                       [&](const auto& setting) { return setting.key.starts_with(section + "."); });
  };
  for (const auto& info : run_kinds()) {
    if (info.kind == RunKind::tokenizer) continue;
    const auto& sections = info.sections;
    if (std::any_of(sections.begin(), sections.end(), has_section)) return info.kind;
  }
  return RunKind::tokenizer;
}

std::map<std::string, std::string> sections_of_other_kinds(RunKind kind) {
  std::map<std::string, std::string> sections;
  for (const auto& info : run_kinds()) {
    if (info.kind == kind) continue;
    for (const auto& section : info.sections) sections[section] = info.trained;
  }
  return sections;
}

}  // namespace nsvq
