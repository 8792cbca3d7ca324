#include "nsvq/train/run_config.h"

#include <cstdlib>

#include "nsvq/core/error.h"
#include "nsvq/core/settings_reader.h"
#include "nsvq/quantizers/vqgan_lc.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/run_directory.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// Settings that name files. Images may be made by the program instead (builtin:...).
std::vector<std::string*> paths_of(Config& config) {
  std::vector<std::string*> paths;
  for (auto* path : {&config.data.train, &config.data.val, &config.train.init_from,
                     &config.quantizer.of<FeaturesConfig>().file}) {
    if (!path->empty() && !path->starts_with("builtin:")) paths.push_back(path);
  }
  return paths;
}

}  // namespace

Config load_run_config(const fs::path& run, const std::vector<std::string>& overrides) {
  const auto file = run / "config.yaml";
  if (fs::exists(file)) return load_config(file.string(), overrides);
  if (!holds_run(run)) {
    throw UserError("{}: holds no run (neither config.yaml nor checkpoints/step-N/)", run.string());
  }
  const auto model = find_model(run);
  const auto metadata = read_model_file(model).metadata;
  const auto text = metadata.find("nsvq.config");
  if (text == metadata.end()) {
    throw UserError("{}: carries no configuration (metadata 'nsvq.config')", model.string());
  }
  Config config;
  const auto table = tokenizer_options(config);
  SettingsReader reader(table);
  reader.read_text(text->second, model.string());
  for (const auto& one : overrides) reader.read_override(one);
  reader.finish(model.string() + ": ");
  return config;
}

Config load_recipe_or_run(const std::string& path, const std::vector<std::string>& overrides) {
  return fs::is_directory(path) ? load_run_config(path, overrides) : load_config(path, overrides);
}

Config with_home(Config config) {
  const char* home = std::getenv("HOME");
  for (auto* path : paths_of(config)) {
    if (home && (*path == "~" || path->starts_with("~/"))) path->replace(0, 1, home);
  }
  return config;
}

Config with_absolute_paths(Config config) {
  for (auto* path : paths_of(config)) *path = fs::absolute(*path).string();
  return config;
}

}  // namespace nsvq
