#include "nsvq/train/run_config.h"

#include <functional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/settings_reader.h"
#include "nsvq/data/paths.h"
#include "nsvq/io/file.h"
#include "nsvq/io/input_file.h"
#include "nsvq/quantizers/vqgan_lc.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/run_folder.h"

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

}  // namespace

Config load_run_config(const fs::path& run, const std::vector<std::string>& overrides) {
  const auto file = run / "config.yaml";
  if (fs::exists(file)) {
    const InputFile regular(file);  // a recipe may come from a pipe, a run's settings may not
    return load_config(file.string(), overrides);
  }
  if (!holds_run(run)) {
    throw UserError("{}: holds no run (neither config.yaml nor checkpoints/step-N/)", run.string());
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

Config load_recipe_or_run(const std::string& path, const std::vector<std::string>& overrides) {
  return fs::is_directory(path) ? load_run_config(path, overrides) : load_config(path, overrides);
}

Config with_home(Config config) { return with_paths(std::move(config), home_path); }

Config with_absolute_paths(Config config) {
  return with_paths(std::move(config),
                    [](const std::string& path) { return fs::absolute(path).string(); });
}

}  // namespace nsvq
