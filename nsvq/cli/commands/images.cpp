// `nsvq images`: sets of images, without a model.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/data/streams/pipe_commands.h"
#include "nsvq/data/streams/pipe_index.h"

namespace nsvq {

namespace {

struct IndexArguments {
  Sources sources;
  bool again = false;
  int64_t jobs = 4, retries = 3;
};

void index_commands(const IndexArguments& arguments) {
  const auto commands = commands_of(arguments.sources);
  Progress progress("index", std::ssize(commands), "commands");
  index_pipes(commands, {.again = arguments.again,
                         .jobs = arguments.jobs,
                         .retries = {.times = arguments.retries},
                         .on_progress = [&](int64_t done) { progress.update(done); }});
  progress.finish();
}

void run_index(const IndexArguments& arguments) {
  if (arguments.sources.items.empty()) throw UserError("--data is required");
  const bool pipes = any_pipe(arguments.sources);
  if (pipes) {
    tell_ignored_variable();
    index_commands(arguments);
  }
  const auto source = open_source(arguments.sources);
  fmt::print("{}: {}{}\n", arguments.sources.text(), count_of(source->size(), "image"),
             pipes ? "" : "; nothing was written, since only pipe: sources need a list");
}

void declare_images_index(CLI::App& app) {
  const auto arguments = std::make_shared<IndexArguments>();
  declare_data(app, arguments->sources,
               "images: 'pipe:COMMAND', whose commands are run and their images listed");
  app.add_option("SOURCE", arguments->sources.items)->group("");  // as `nsvq index` had it
  app.add_flag("--again", arguments->again, "also run commands whose images are listed already");
  app.add_option("--jobs", arguments->jobs, "commands at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--retries", arguments->retries, "times that a failing command is run again")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.footer(
      "The lists are kept in $XDG_CACHE_HOME/nsvq/index, else in ~/.cache/nsvq/index.\nA stopped "
      "command goes on where it was when it is run again.");
  app.callback([arguments] { run_index(*arguments); });
}

}  // namespace

void declare_images(CLI::App& app) {
  declare_commands(
      app, {{"compare", "compute metrics between two sets of images", declare_images_compare},
            {"statistics", "compute FID statistics (mean and covariance) of a set of images",
             declare_images_statistics},
            {"index", "list the images of pipe: sources once, for later commands",
             declare_images_index}});
}

}  // namespace nsvq
