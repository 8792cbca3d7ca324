#include "nsvq/runs/config.h"

#include <algorithm>
#include <tuple>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/settings/settings_reader.h"
#include "nsvq/settings/yaml.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Whether a file is a run's config.yaml.
bool is_of_a_run(const fs::path& file) {
  std::error_code error;
  const auto path = fs::canonical(file, error);
  return !error && path.filename() == kSettingsFile && holds_run(path.parent_path());
}

/// Settings of the model that train.init_from names, as "key=value". None where it cannot be read:
/// training says what is wrong with it.
std::vector<std::string> settings_of_named_model(const TokenizerConfig& config) {
  if (config.train.init_from.empty()) return {};
  try {
    const auto file = open_model_file(home_path(config.train.init_from));
    const auto& metadata = file.contents.metadata;
    const auto text = metadata.find(kModelConfigKey);
    if (text == metadata.end()) return {};
    return settings_of_start(config, parse_config(text->second, file.path.string()));
  } catch (const UserError&) {
    return {};
  }
}

/// The settings of a run of any kind: its config.yaml or, where that is missing, what its newest
/// checkpoint's model carries.
std::vector<YamlSetting> stored_settings(const fs::path& run) {
  const auto file = run / kSettingsFile;
  if (fs::exists(file)) {
    const InputFile regular(file);  // no pipe
    return parse_yaml(read_text(file), file.string());
  }
  const auto model = open_model_file(run);
  for (const auto& kind : run_kinds()) {
    const auto text = model.contents.metadata.find(kind.settings_key);
    if (text == model.contents.metadata.end()) continue;
    return parse_yaml(text->second, model.path.string());
  }
  throw UserError("{}: carries no configuration; was it written by nsvq?", model.path.string());
}

}  // namespace

TokenizerConfig load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  TokenizerConfig config;
  auto table = option_table(config);
  table.inherited = [&config] { return settings_of_named_model(config); };
  table.load(path, overrides);
  return config;
}

bool comes_from_a_run(const fs::path& recipe) {
  std::error_code ignored;
  if (!fs::is_regular_file(recipe, ignored)) return false;  // a pipe cannot be read twice
  if (is_of_a_run(recipe)) return true;
  for (const auto& setting : parse_yaml(read_text(recipe), recipe.string())) {
    if (setting.key != "base") continue;
    const auto& bases = setting.value.scalars;
    return std::any_of(bases.begin(), bases.end(), [&](const auto& base) {
      return comes_from_a_run(recipe.parent_path() / base.text);
    });
  }
  return false;
}

void allow_pipes(DataConfig& data, bool stored, const std::vector<std::string>& overrides,
                 bool allow_pipe) {
  const auto is_own = [&](const std::string& key) {
    return !stored || std::any_of(overrides.begin(), overrides.end(),
                                  [&](const auto& text) { return text.starts_with(key + "="); });
  };
  data.train.pipes_allowed = allow_pipe || is_own("data.train");
  data.val.pipes_allowed = allow_pipe || is_own("data.val");
}

void read_run_settings(const OptionTable& table, const fs::path& run,
                       const std::string& metadata_key, const std::vector<std::string>& overrides) {
  const auto file = run / kSettingsFile;
  if (fs::exists(file)) {
    const InputFile regular(file);  // a recipe may come from a pipe, a run's settings may not
    return table.load(file.string(), overrides);
  }
  if (!holds_run(run)) {
    throw UserError(
        "{0}: holds no run (neither config.yaml nor checkpoints/step-N/); to train on images in "
        "it, name a recipe and data.train={0}",
        run.string());
  }
  const auto model = open_model_file(run);
  const auto& metadata = model.contents.metadata;
  const auto text = metadata.find(metadata_key);
  if (text == metadata.end()) {
    throw UserError("{}: carries no configuration (metadata '{}')", model.path.string(),
                    metadata_key);
  }
  SettingsReader reader(table);
  reader.read_text(text->second, model.path.string());
  reader.read_overrides(overrides);
  reader.finish(model.path.string() + ": ");
}

void read_stored_settings(const std::vector<Option>& rows, const fs::path& run) {
  for (const auto& setting : stored_settings(run)) {
    for (const auto& row : rows) {
      if (row.key == setting.key) std::ignore = row.assign(setting.value);
    }
  }
}

RunKind kind_of_run(const fs::path& run) { return kind_of_settings(stored_settings(run)); }

}  // namespace nsvq
