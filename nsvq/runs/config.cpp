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

}  // namespace

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
  const auto file = run / kSettingsFile;
  const InputFile regular(file);  // no pipe
  for (const auto& setting : parse_yaml(read_text(file), file.string())) {
    for (const auto& row : rows) {
      if (row.key == setting.key) std::ignore = row.assign(setting.value);
    }
  }
}

RunKind kind_of_run(const fs::path& run) {
  const auto file = run / kSettingsFile;
  if (!fs::exists(file)) return RunKind::tokenizer;
  const InputFile regular(file);  // no pipe
  return kind_of_settings(parse_yaml(read_text(file), file.string()));
}

}  // namespace nsvq
