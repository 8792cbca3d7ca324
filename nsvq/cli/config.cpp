
#include <CLI/CLI.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/core/error.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/train/run_config.h"

namespace nsvq {

namespace {

struct ConfigArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool reference = false;
};

void run_config(const ConfigArguments& arguments) {
  if (arguments.reference) {
    fmt::print("{}", config_reference());
    return;
  }
  if (arguments.recipe.empty()) {
    throw UserError("config: name a recipe, or ask for all keys with --reference");
  }
  const auto config = load_recipe_or_run(arguments.recipe, arguments.overrides);
  fmt::print("{}", to_yaml(config));
}

}  // namespace

void declare_config(CLI::App& app) {
  const auto arguments = std::make_shared<ConfigArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), or a run's folder");
  app.add_option("SETTINGS", arguments->overrides, "key=value ..., overriding the recipe");
  app.add_flag("--reference", arguments->reference,
               "print every key with its type, default, range and meaning");
  app.callback([arguments] { run_config(*arguments); });
}

}  // namespace nsvq
