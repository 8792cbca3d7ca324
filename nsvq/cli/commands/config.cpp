
#include <CLI/CLI.hpp>
#include <filesystem>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/nn/discriminator_kinds.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/config.h"
#include "nsvq/train/vq/operator_check.h"
#include "nsvq/train/vq/start_checks.h"

namespace nsvq {

namespace {

struct ConfigArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  bool reference = false;
};

/// Throws UserError for settings that training would refuse at its start. Data, devices and files
/// are not read.
void check_as_training(const TokenizerConfig& config) {
  note_table_of(config.quantizer, config.model.latent_dim);
  const auto quantizer = make_quantizer(config.quantizer, config.model.latent_dim);
  make_replacement(config.replacement, config.quantizer, *quantizer);
  require_trained(config.quantizer);
  check_freeze(config.schedule, config.quantizer);
  check_dist(config.dist, config.quantizer, config.adversarial);
  if (config.adversarial.weight > 0) {
    discriminator_kind(config.adversarial.network).make(config.adversarial, config.data.size);
  }
  if (config.train.check > 0) OperatorCheck(config.quantizer, config.model.latent_dim, at::kCPU);
}

void run_config(const ConfigArguments& arguments) {
  if (arguments.reference) {
    fmt::print("{}", config_reference());
    return;
  }
  if (arguments.recipe.empty()) {
    throw UserError("config: name a recipe, or ask for all keys with --reference");
  }
  const auto config = load_recipe_or_run(arguments.recipe, arguments.overrides);
  check_as_training(config);
  fmt::print("{}", to_yaml(config));
  flush_stdout();
  // Last, since the machine that the settings are printed for may have them.
  check_weights(config);
  std::error_code ignored;
  const bool run = std::filesystem::is_directory(arguments.recipe, ignored);  // has read its files
  if (!run) check_files(with_home(config));
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
