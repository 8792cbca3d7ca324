#include "nsvq/cli/program/training.h"

#include <CLI/CLI.hpp>
#include <cerrno>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/data/streams/pipe_commands.h"
#include "nsvq/runs/verdict.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The name of a recipe's runs: photos for configs/photos.yaml and for the run runs/photos/.
std::string recipe_name(const fs::path& recipe) {
  return (recipe.has_filename() ? recipe : recipe.parent_path()).stem().string();
}

}  // namespace

void declare_train_arguments(CLI::App& app, TrainArguments& arguments, const std::string& example) {
  app.add_option("CONFIG", arguments.recipe,
                 "recipe (YAML), such as " + example + ", or a run's folder")
      ->required();
  app.add_option("SETTINGS", arguments.overrides,
                 "key=value ..., overriding the recipe, such as train.epochs=10");
  app.add_option("--run", arguments.request.folder,
                 "folder of the run (default: runs/NAME for NAME.yaml, then runs/NAME-2, ...)")
      ->type_name("DIR");
  app.add_flag(
      "--resume", arguments.request.resume,
      "resume the run from its newest intact checkpoint, or fail if there is no run; without "
      "it, an unfinished run with equal settings is resumed if there is one");
  app.add_flag("--new", arguments.request.fresh,
               "start a new run even if an unfinished one exists");
  app.add_option(
         "--fork", arguments.request.fork,
         "new folder in which the run CONFIG goes on from its newest checkpoint with changed "
         "SETTINGS; the run itself stays as it is")
      ->type_name("DIR")
      ->group(kRare);
  declare_gpus(app, arguments.gpus, "train");
  app.add_flag("--allow-pipe", arguments.allow_pipe,
               "run the commands (pipe:COMMAND) among the sources of a run's stored settings")
      ->group(kRare);
  app.footer(
      "Ctrl-C, SIGTERM and SIGHUP write a checkpoint and end the program with exit code 130 or "
      "143;\n"
      "a second Ctrl-C ends it at once. SIGUSR1 writes a checkpoint, and training goes on.");
}

RunRequest run_request(const TrainArguments& arguments) {
  auto request = arguments.request;
  std::error_code ignored;
  request.source = arguments.recipe;
  const bool names_run = request.fork.empty() && fs::is_directory(arguments.recipe, ignored);
  if (names_run && request.folder.empty() && !request.fresh) request.folder = arguments.recipe;
  request.name = recipe_name(arguments.recipe);
  return request;
}

RunChoice agree_on_run(const RunMatch& match, const RunRequest& request, Group& group) {
  RunChoice choice = group.leads() ? choose_run(match, request) : RunChoice{};
  // No JSON: a folder's name may be any bytes.
  const std::string signs = "-+>";  // in the order of Start
  const auto told =
      broadcast_text(group, signs[static_cast<size_t>(choice.start)] + choice.folder.string());
  choice.folder = told.substr(1);
  choice.start = static_cast<Start>(signs.find(told.front()));
  if (choice.start == Start::resume && !request.resume) {
    log("resuming the {}", request.folder.empty()
                               ? fmt::format("unfinished run with these settings in {} (--new "
                                             "starts another)",
                                             choice.folder.string())
                               : "run in " + choice.folder.string());
  }
  return choice;
}

std::string resume_command(const std::string& command, const fs::path& run,
                           const DataConfig& data) {
  auto folder = run.string();
  if (folder.starts_with('-')) folder = "./" + folder;  // not an option
  return fmt::format("{} {} {} --resume{}", shown_shell_word(program_invocation_name), command,
                     shown_shell_word(folder),
                     any_pipe(data.train) || any_pipe(data.val) ? " --allow-pipe" : "");
}

fs::path forked_run(const TrainArguments& arguments, Start start) {
  return start == Start::fork ? arguments.recipe : "";
}

std::string verdict_line(const fs::path& run) {
  const auto verdict = verdict_of_run(run, /*finished=*/true);
  return verdict.text.empty() ? "" : fmt::format("  verdict: {}\n", verdict.text);
}

void log_verdict_of_failed(const fs::path& run) {
  const auto verdict = verdict_of_run(run, /*finished=*/false);
  if (!verdict.text.empty()) log("verdict: {}", verdict.text);
}

std::shared_ptr<Group> join_ranks_to_train(const Launch& launch, const DistConfig& dist,
                                           const std::string& device) {
  const GroupOptions options{.timeout = dist.timeout,
                             .backend = dist.backend,
                             .device = choose_device(device, launch.local_rank)};
  return join_ranks(launch, options,
                    "the same command goes on from the last checkpoint, or begins again where "
                    "there is none yet");
}

}  // namespace nsvq
