#include <cerrno>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "nsvq/cli/command.h"
#include "nsvq/core/config.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/dist/group.h"
#include "nsvq/report/metric_table.h"
#include "nsvq/train/run_choice.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  RunRequest request;
};

std::string quoted(const std::string& text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_./=:,-") == std::string::npos;
  return plain && !text.empty() ? text : "'" + text + "'";
}

/// By the settings that the run keeps, so that it is short, and with the program as it was called.
std::string resume_command(const std::filesystem::path& run) {
  return fmt::format("{} train {} --run {} --resume", quoted(program_invocation_name),
                     quoted((run / "config.yaml").string()), quoted(run.string()));
}

void print_result(const Config& config, const std::filesystem::path& run, const Outcome& outcome) {
  fmt::print("\n{} on {}\n{}", run.string(), config.data.val, metric_table(outcome.evaluation));
  if (const auto samples = newest_samples(run); !samples.empty()) {
    fmt::print("  reconstructions (below their images): {}\n", samples.string());
  }
  fmt::print("  report: {}\n", (run / "report.html").string());
}

void run_train(const TrainArguments& arguments) {
  const auto config = load_config(arguments.recipe, arguments.overrides);
  auto request = arguments.request;
  request.name = std::filesystem::path(arguments.recipe).stem().string();
  const auto [run, start] = choose_run(config, request);
  if (start == Start::resume && !request.resume) {
    log("{} holds a run of these settings, so it goes on (--new starts another)", run.string());
  }
  catch_interrupts();
  Trainer trainer(config, run, make_group(), start);
  const auto outcome = trainer.train();
  if (outcome.finished) return print_result(config, run, outcome);
  fmt::print("stopped; to go on:\n  {}\n", resume_command(run));
}

}  // namespace

void declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), such as configs/quickstart.yaml")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., overriding the recipe, such as train.epochs=10");
  app.add_option("--run", arguments->request.folder,
                 "folder for what the run writes (default: runs/ and the recipe's name, numbered)");
  app.add_flag("--resume", arguments->request.resume,
               "go on from the newest complete checkpoint of the run, or fail; without it, an "
               "unfinished run of the same settings goes on too");
  app.add_flag("--new", arguments->request.fresh, "start another run, whatever is there");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace nsvq
