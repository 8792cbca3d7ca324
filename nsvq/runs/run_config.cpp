#include "nsvq/runs/run_config.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/paths.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/quantizers/vqgan_lc.h"
#include "nsvq/recipe/recipe.h"
#include "nsvq/runs/run_folder.h"
#include "nsvq/settings/settings_reader.h"
#include "nsvq/settings/yaml.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

using Change = std::function<std::string(const std::string&)>;

/// Changes all settings that name files.
Config with_paths(Config config, const Change& change) {
  for (auto* sources : {&config.data.train, &config.data.val}) {
    for (auto& item : sources->items) item = change_source(item, change);
  }
  for (auto* path : {&config.train.init_from, &config.quantizer.of<FeaturesConfig>().file}) {
    if (!path->empty()) *path = change(*path);
  }
  return config;
}

/// Whether a file is a run's config.yaml.
bool is_of_a_run(const fs::path& file) {
  std::error_code error;
  const auto path = fs::canonical(file, error);
  return !error && path.filename() == "config.yaml" && holds_run(path.parent_path());
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

Config load_run_config(const fs::path& run, const std::vector<std::string>& overrides) {
  const auto file = run / "config.yaml";
  if (fs::exists(file)) {
    const InputFile regular(file);  // a recipe may come from a pipe, a run's settings may not
    return load_config(file.string(), overrides);
  }
  if (!holds_run(run)) {
    throw UserError(
        "{0}: holds no run (neither config.yaml nor checkpoints/step-N/); to train on images in "
        "it, "
        "name a recipe and data.train={0}",
        run.string());
  }
  const auto model = open_model_file(run);
  const auto& metadata = model.contents.metadata;
  const auto text = metadata.find(kModelConfigKey);
  if (text == metadata.end()) {
    throw UserError("{}: carries no configuration (metadata '{}')", model.path.string(),
                    kModelConfigKey);
  }
  Config config;
  const auto table = tokenizer_options(config);
  SettingsReader reader(table);
  reader.read_text(text->second, model.path.string());
  reader.read_overrides(overrides);
  reader.finish(model.path.string() + ": ");
  return config;
}

Config load_recipe_or_run(const std::string& path, const std::vector<std::string>& overrides,
                          bool allow_pipe) {
  const bool folder = fs::is_directory(path);
  auto config = folder ? load_run_config(path, overrides) : load_config(path, overrides);
  allow_pipes(config.data, folder || comes_from_a_run(path), overrides, allow_pipe);
  return config;
}

Config with_home(Config config) { return with_paths(std::move(config), home_path); }

Config with_absolute_paths(Config config) {
  return with_paths(std::move(config),
                    [](const std::string& path) { return fs::absolute(path).string(); });
}

}  // namespace nsvq
