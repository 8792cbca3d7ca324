#include "nsvq/experiments/plan/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <span>
#include <string_view>

#include "nsvq/diffusion/config.h"
#include "nsvq/experiments/spec/experiment.h"
#include "nsvq/generation/config.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/config.h"
#include "nsvq/settings/settings_reader.h"

namespace nsvq {

namespace {

/// Settings of logging and speed, which change no result. The budget, the start and the drift
/// meter, which other commands may change in a run, do count here.
constexpr std::array<std::string_view, 18> kOutsideOfHash = {"device",
                                                             "threads",
                                                             "data.threads",
                                                             "data.prefetch",
                                                             "data.retries",
                                                             "data.on_training_images",
                                                             "train.metrics",
                                                             "train.log_every",
                                                             "train.eval_every",
                                                             "train.samples",
                                                             "train.samples_every",
                                                             "train.graphs",
                                                             "train.recompute",
                                                             "train.check",
                                                             "train.check_ranks",
                                                             "dist.timeout",
                                                             "checkpoint.every_steps",
                                                             "checkpoint.keep"};

void read_layers(const OptionTable& table, const SettingsLayers& layers) {
  SettingsReader reader(table);
  for (const auto& [recipe, where, words] : layers.all) {
    if (recipe.empty()) {
      reader.read_overrides(words, where);
    } else {
      reader.read_file(recipe);
    }
  }
  reader.finish(layers.name.empty() ? "" : layers.name + ": ");
}

/// Commands (pipe:) of a run's stored settings are not the user's own, as nsvq train has it.
void allow_pipes_of(const SettingsLayers& layers, DataConfig& data) {
  bool stored = false;
  std::vector<std::string> words;
  for (const auto& layer : layers.all) {
    stored |= !layer.recipe.empty() && comes_from_a_run(layer.recipe);
    words.insert(words.end(), layer.words.begin(), layer.words.end());
  }
  allow_pipes(data, stored, words);
}

/// Lines of the settings that differ from the defaults, so that a setting which is added later
/// leaves the hash as it is.
std::string essence_of(const OptionTable& table, const OptionTable& defaults) {
  std::string text;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    if (!is_essential(row.key) || row.value() == defaults.rows.at(i).value()) continue;
    text += fmt::format("{}={}\n", row.key, row.value());
  }
  return text;
}

template <std::derived_from<RunConfig> Config>
ResolvedSettings resolve(const SettingsLayers& layers) {
  Config config, defaults;
  read_layers(option_table(config), layers);
  config = with_absolute_paths(with_home(config));
  allow_pipes_of(layers, config.data);
  return {to_yaml(config), essence_of(option_table(config), option_table(defaults)), config};
}

}  // namespace

void SettingsLayers::add_recipes(const std::vector<std::string>& paths) {
  for (const auto& path : paths) all.push_back({path, "", {}});
}

void SettingsLayers::add(const std::string& where, const std::vector<std::string>& words) {
  all.push_back({"", where, words});
}

bool is_essential(std::string_view key) {
  return std::find(kOutsideOfHash.begin(), kOutsideOfHash.end(), key) == kOutsideOfHash.end();
}

ResolvedSettings resolve_settings(const std::string& kind, const SettingsLayers& layers) {
  switch (trained_by(kind)) {
    case RunKind::tokenizer:
      return resolve<TokenizerConfig>(layers);
    case RunKind::diffusion:
      return resolve<DiffusionConfig>(layers);
    case RunKind::generator:
      return resolve<GenerationConfig>(layers);
  }
  return {};
}

std::string short_hash(const std::string& text, size_t digits) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex().substr(0, digits);
}

}  // namespace nsvq
