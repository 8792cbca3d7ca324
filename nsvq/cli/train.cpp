#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "nsvq/cli/command.h"
#include "nsvq/cli/exit_code.h"
#include "nsvq/cli/launcher.h"
#include "nsvq/cli/memory_advice.h"
#include "nsvq/cli/shell_word.h"
#include "nsvq/core/device.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/terminal.h"
#include "nsvq/data/pipe_commands.h"
#include "nsvq/dist/group.h"
#include "nsvq/report/metric_table.h"
#include "nsvq/train/run_choice.h"
#include "nsvq/train/run_config.h"
#include "nsvq/train/run_folder.h"
#include "nsvq/train/run_page.h"
#include "nsvq/train/trainer.h"

namespace nsvq {

namespace {

struct TrainArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  RunRequest request;
  int gpus = 0;
  bool allow_pipe = false;
};

/// The command that resumes a run: the program as it was invoked, with the settings stored in the
/// run's folder instead of the original recipe and overrides.
std::string resume_command(const std::filesystem::path& run, const DataConfig& data) {
  auto folder = run.string();
  if (folder.starts_with('-')) folder = "./" + folder;  // not an option
  return fmt::format("{} train {} --resume{}", shell_word(program_invocation_name),
                     shell_word(folder),
                     any_pipe(data.train) || any_pipe(data.val) ? " --allow-pipe" : "");
}

/// What runs of a recipe are called: photos for configs/photos.yaml, and for a run runs/photos/.
std::string recipe_name(const std::filesystem::path& recipe) {
  return (recipe.has_filename() ? recipe : recipe.parent_path()).stem().string();
}

void print_result(const Config& config, const std::filesystem::path& run, const Outcome& outcome) {
  fmt::print("\n{} on {}\n{}", run.string(), config.data.val.text(),
             metric_table(outcome.evaluation));
  if (const auto samples = newest_samples(run); !samples.empty()) {
    fmt::print("  reconstructions (below their images): {}\n", samples.string());
  }
  fmt::print("  report: {}\n", (run / "report.html").string());
}

/// Rank 0's choice on every rank; it alone has the lock.
RunChoice agree_on_run(const Config& config, const RunRequest& request, Group& group) {
  RunChoice choice = group.leads() ? choose_run(config, request) : RunChoice{};
  const auto told = nlohmann::json::parse(broadcast_text(
      group,
      nlohmann::json{{"folder", choice.folder.string()}, {"resume", choice.start == Start::resume}}
          .dump()));
  choice.folder = told.at("folder").get<std::string>();
  choice.start = told.at("resume").get<bool>() ? Start::resume : Start::fresh;
  return choice;
}

/// The thread that trains may be waiting for the rank that is lost, so nothing can be thrown to it.
[[noreturn]] void end_without_rank(int rank, const std::string& message) {
  set_quiet(false);
  log("nsvq: rank {}: {}; the last checkpoint is intact: the same command goes on from it", rank,
      message);
  ::_exit(kRunError);
}

void train_as_rank(const TrainArguments& arguments, const Config& config,
                   const std::shared_ptr<Group>& group, std::optional<StopAtOnceGuard>& starting) {
  note_batch_size("train.batch_size=", config.train.batch_size);
  auto request = arguments.request;
  const bool names_run = std::filesystem::is_directory(arguments.recipe);
  if (names_run && request.folder.empty() && !request.fresh) request.folder = arguments.recipe;
  request.name = recipe_name(arguments.recipe);
  auto [run, start, lock, reserved] = agree_on_run(config, request, *group);
  if (start == Start::resume && !request.resume) {
    log("resuming the unfinished run with these settings in {} (--new starts another)",
        run.string());
  }
  Trainer trainer(config, run, group, start, std::move(lock));
  starting.reset();
  const auto outcome = trainer.train();
  if (outcome.finished) {
    if (group->leads()) complete_report(run);
    // A rank that has ended would seem lost to one that is still writing.
    group->sum({at::zeros({1})});
    if (group->leads()) print_result(config, run, outcome);
  }
  if (outcome.finished) return;
  if (group->leads()) fmt::print("stopped; to resume:\n  {}\n", resume_command(run, config.data));
  std::fflush(stdout);
  throw Interrupted();
}

void run_train(const TrainArguments& arguments) {
  catch_interrupts();
  std::optional<StopAtOnceGuard> starting(std::in_place);
  const auto launch = launch_from_environment();
  set_quiet(launch.rank != 0);
  const auto config =
      with_home(load_recipe_or_run(arguments.recipe, arguments.overrides, arguments.allow_pipe));
  const GroupOptions options{.timeout = config.dist.timeout,
                             .backend = config.dist.backend,
                             .device = choose_device(config.device, launch.local_rank)};
  const auto group = make_group(
      launch, options, [&](const std::string& message) { end_without_rank(launch.rank, message); });
  try {
    train_as_rank(arguments, config, group, starting);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    group->tell_failure(text.substr(0, text.find('\n')));
    set_quiet(false);
    throw;
  }
}

/// The same command once for each GPU, without --gpus.
void start_ranks(const TrainArguments& arguments) {
  const auto config =
      load_recipe_or_run(arguments.recipe, arguments.overrides, arguments.allow_pipe);
  if (config.device != "cpu" && gpu_count() < arguments.gpus) {
    throw UserError("--gpus {}: {}", arguments.gpus,
                    gpu_count() == 0
                        ? why_no_gpu() + "; with device=cpu it starts as many processes"
                        : fmt::format("this machine has {}", gpu_count()));
  }
  std::vector<std::string> words = {"train", arguments.recipe};
  words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
  const auto& request = arguments.request;
  if (!request.folder.empty()) words.insert(words.end(), {"--run", request.folder});
  if (request.resume) words.emplace_back("--resume");
  if (request.fresh) words.emplace_back("--new");
  if (arguments.allow_pipe) words.emplace_back("--allow-pipe");
  throw ExitCode{launch_processes(arguments.gpus, words)};
}

}  // namespace

void declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  app.add_option("CONFIG", arguments->recipe,
                 "recipe (YAML), such as configs/quickstart.yaml, or a run's folder")
      ->required();
  app.add_option("SETTINGS", arguments->overrides,
                 "key=value ..., overriding the recipe, such as train.epochs=10");
  app.add_option(
      "--run", arguments->request.folder,
      "folder of the run (default: runs/NAME, NAME being the recipe's, then NAME-2, ...)");
  app.add_flag("--resume", arguments->request.resume,
               "resume the run from its newest complete checkpoint (from its beginning if it has "
               "none), or fail if there is no run; without it, an "
               "unfinished run with the same settings is resumed if there is one");
  app.add_flag("--new", arguments->request.fresh,
               "start a new run even if an unfinished one exists");
  app.add_option("--gpus", arguments->gpus,
                 "train on so many GPUs of this machine, a process each (docs/distributed.md)")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--allow-pipe", arguments->allow_pipe,
               "run the commands (pipe:COMMAND) among the sources of a run's stored settings");
  app.footer(
      "Ctrl-C, SIGTERM and SIGHUP write a checkpoint and end the program with exit code 130 or "
      "143;\n"
      "a second one ends it at once. SIGUSR1 writes a checkpoint, and training goes on.");
  app.callback([arguments] {
    if (arguments->gpus <= 1) return run_train(*arguments);
    start_ranks(*arguments);
  });
}

}  // namespace nsvq
