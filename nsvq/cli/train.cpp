#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "nsvq/cli/command.h"
#include "nsvq/cli/table.h"
#include "nsvq/core/config.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/setup.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string run;
};

void run_train(const TrainArguments& arguments) {
  const auto config = load_config(arguments.recipe, arguments.overrides);
  const auto name = std::filesystem::path(arguments.recipe).stem().string();
  const auto run =
      arguments.run.empty() ? free_run_path(name) : std::filesystem::path(arguments.run);
  prepare_torch(config);
  Trainer trainer(config, run, make_group());
  const auto evaluation = trainer.train();

  const auto samples = run / "samples" / fmt::format("epoch-{:04}.png", config.train.epochs);
  fmt::print("\n{} on {}\n{}", run.string(), config.data.val, metric_table(evaluation));
  if (std::filesystem::exists(samples)) {
    fmt::print("  reconstructions (below their images): {}\n", samples.string());
  }
  fmt::print("  report: {}\n", (run / "report.html").string());
}

}  // namespace

void declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), such as configs/quickstart.yaml")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., overriding the recipe, such as train.epochs=10");
  app.add_option("--run", arguments->run,
                 "folder for what the run writes (default: runs/ and the recipe's name, numbered)");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace nsvq
