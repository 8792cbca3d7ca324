#include <cerrno>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "nsvq/cli/command.h"
#include "nsvq/cli/memory_advice.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/dist/group.h"
#include "nsvq/report/metric_table.h"
#include "nsvq/tokenizer/recipe.h"
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

/// The command that resumes a run: the program as it was invoked, with the settings stored in the
/// run's folder instead of the original recipe and overrides.
std::string resume_command(const std::filesystem::path& run) {
  return fmt::format("{} train {} --run {} --resume", quoted(program_invocation_name),
                     quoted((run / "config.yaml").string()), quoted(run.string()));
}

void print_result(const Config& config, const std::filesystem::path& run, const Outcome& outcome) {
  fmt::print("\n{} on {}\n{}", run.string(), config.data.val.text(),
             metric_table(outcome.evaluation));
  if (const auto samples = newest_samples(run); !samples.empty()) {
    fmt::print("  reconstructions (below their images): {}\n", samples.string());
  }
  fmt::print("  report: {}\n", (run / "report.html").string());
}

void run_train(const TrainArguments& arguments) {
  const auto config = load_config(arguments.recipe, arguments.overrides);
  note_batch_size("train.batch_size=", config.train.batch_size);
  auto request = arguments.request;
  request.name = std::filesystem::path(arguments.recipe).stem().string();
  const auto [run, start] = choose_run(config, request);
  if (start == Start::resume && !request.resume) {
    log("resuming the unfinished run with these settings in {} (--new starts another)",
        run.string());
  }
  catch_interrupts();
  Trainer trainer(config, run, make_group(), start);
  const auto outcome = trainer.train();
  if (outcome.finished) return print_result(config, run, outcome);
  fmt::print("stopped; to resume:\n  {}\n", resume_command(run));
}

}  // namespace

void declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("CONFIG", arguments->recipe, "recipe (YAML), such as configs/quickstart.yaml")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., overriding the recipe, such as train.epochs=10");
  app.add_option(
      "--run", arguments->request.folder,
      "folder of the run (default: runs/NAME, NAME being the recipe's, then NAME-2, ...)");
  app.add_flag("--resume", arguments->request.resume,
               "resume from the newest complete checkpoint of the run, or fail; without it, an "
               "unfinished run with the same settings is resumed if there is one");
  app.add_flag("--new", arguments->request.fresh,
               "start a new run even if an unfinished one exists");
  app.callback([arguments] { run_train(*arguments); });
}

}  // namespace nsvq
