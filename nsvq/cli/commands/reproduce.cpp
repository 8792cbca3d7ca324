#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/paths.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/program.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/experiments/plan/estimate.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/run/reproduce.h"
#include "nsvq/io/files/lock.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

struct ReproduceArguments {
  std::vector<std::string> names, train, val, rows;
  std::vector<int64_t> seeds;
  std::string scale = "cpu", out = "reproduce";
  int jobs = 0;
  double minutes = 0;
  bool dry_run = false, timing = true, allow_pipe = false;
};

/// Names in the order in which they are run and shown.
const std::vector<std::string>& known_experiments() {
  static const std::vector<std::string> names = {
      "table1",     "ldm",    "resolution-256",   "phases",
      "components", "stress", "controlled-drift", "sensitivity",
      "dynamics",   "cost",   "reconstructions",  "kmeans-fixed-point"};
  return names;
}

/// configs/experiments of an installation or of the source tree.
fs::path experiments_folder() {
  std::error_code ignored;
  const auto program = fs::read_symlink("/proc/self/exe", ignored);
  const auto installed = (program.parent_path() / kInstalledConfigs).lexically_normal();
  return (fs::is_directory(installed, ignored) ? installed : fs::path(kConfigs)) / "experiments";
}

/// Files of the user (.yaml) and experiments of this program.
std::vector<Experiment> open_experiments(const std::vector<std::string>& names) {
  std::vector<Experiment> experiments;
  const auto add = [&](const fs::path& file) { experiments.push_back(read_experiment(file)); };
  for (const auto& name : names) {
    if (name.ends_with(".yaml") || name.ends_with(".yml")) {
      add(name);
    } else if (name == "all") {
      for (const auto& one : known_experiments()) add(experiments_folder() / (one + ".yaml"));
    } else {
      const auto& known = known_experiments();
      if (std::find(known.begin(), known.end(), name) == known.end()) {
        auto there = known;
        there.emplace_back("all");
        throw unknown_name("experiment", name, there);
      }
      add(experiments_folder() / (name + ".yaml"));
    }
  }
  for (size_t i = 0; i < experiments.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (experiments[i].name != experiments[j].name) continue;
      throw UserError("{} is named twice", experiments[i].name);
    }
  }
  return experiments;
}

/// Throws UserError for NAME=SOURCE where no experiment has an image set NAME; a source may hold an
/// = of its own.
void refuse_unknown_set(const std::string& word, const std::string& name,
                        const std::vector<Experiment>& experiments) {
  std::error_code ignored;
  const bool plain =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == std::string::npos;
  if (!plain || name == "builtin" || fs::exists(word, ignored)) return;
  std::vector<std::string> sets;
  for (const auto& one : experiments) {
    if (std::find(sets.begin(), sets.end(), one.data) == sets.end()) sets.push_back(one.data);
  }
  throw unknown_name("image set", name, sets, printable(word));
}

/// Sources by image set, of words SOURCE (for all sets: "") and NAME=SOURCE.
std::map<std::string, Sources> sources_by_set(const std::vector<std::string>& words,
                                              const std::vector<Experiment>& experiments) {
  std::map<std::string, Sources> sources;
  for (const auto& word : words) {
    const auto equals = std::min(word.find('='), word.size());
    const auto name = word.substr(0, equals);
    // Sources may have an = of their own: builtin:dead-leaves?size=64.
    const auto is_named = [&](const Experiment& one) { return one.data == name; };
    const bool is_set =
        equals < word.size() && std::any_of(experiments.begin(), experiments.end(), is_named);
    if (equals < word.size() && !is_set) refuse_unknown_set(word, name, experiments);
    sources[is_set ? name : ""].items.push_back(is_set ? word.substr(equals + 1) : word);
  }
  return sources;
}

void list_experiments() {
  for (const auto& name : known_experiments()) {
    const auto experiment = read_experiment(experiments_folder() / (name + ".yaml"));
    fmt::print("{:<20} {}\n", name, printable(experiment.title));
  }
}

void run_reproduce(const ReproduceArguments& arguments) {
  if (arguments.names == std::vector<std::string>{"list"}) return list_experiments();
  const auto experiments = open_experiments(arguments.names);
  PlanOptions options;
  options.scale = arguments.scale;
  options.out = fs::absolute(arguments.out).lexically_normal();
  options.train = sources_by_set(arguments.train, experiments);
  options.val = sources_by_set(arguments.val, experiments);
  options.seeds = arguments.seeds;
  for (size_t i = 0; i < options.seeds.size(); ++i) {
    if (std::count(options.seeds.begin(), options.seeds.end(), options.seeds[i]) == 1) continue;
    throw UserError("--seeds: {} is named twice", options.seeds[i]);
  }
  options.rows = arguments.rows;
  options.gpus = gpu_count();
  options.allow_pipe = arguments.allow_pipe;
  const auto plan = make_plan(experiments, options);
  const auto program = fs::read_symlink("/proc/self/exe").string();
  if (arguments.dry_run) {
    const auto say = [](const std::string& line) { log("{}", line); };
    const auto times = arguments.timing ? time_steps(plan, program, say) : StepTimes();
    fmt::print("{}", plan_table(plan, times));
    return;
  }
  require_images(plan);
  make_named_folder(options.out);
  const auto lock = FolderLock::try_take(options.out);
  if (!lock) throw UserError("{}: another process reproduces there", options.out.string());
  catch_interrupts();
  ScheduleOptions schedule;
  schedule.program = program;
  schedule.environments = slot_environments(arguments.jobs);
  schedule.gpus = gpu_names();
  schedule.threads = threads_of_a_job(arguments.jobs);
  schedule.minutes = arguments.minutes;
  schedule.say = [](const std::string& line) {
    fmt::print("{}\n", printable(line));
    flush_stdout();
  };
  for (const auto& line : notes_of(plan)) schedule.say(line);
  const auto result = reproduce(plan, options.out, schedule);
  const auto page = experiments.size() > 1 ? "index.html" : experiments.front().name + ".html";
  fmt::print("{}\n", printable((fs::path(arguments.out) / page).string()));
  if (result.left > 0) {
    fmt::print("{} left after {} minutes; the same command goes on\n",
               count_of(static_cast<int64_t>(result.left), "run"), arguments.minutes);
  }
  flush_stdout();
  if (result.failed + result.no_pictures > 0) {
    const bool runs = result.failed > 0;
    throw RunError("{} failed; the page says why, and the same command tries again",
                   runs ? count_of(result.failed, "run") : count_of(result.no_pictures, "picture"));
  }
}

}  // namespace

void declare_reproduce(CLI::App& app) {
  const auto arguments = std::make_shared<ReproduceArguments>();
  app.add_option("EXPERIMENT", arguments->names,
                 "list, all, files of your own (YAML, docs/reproduce.md), or: " +
                     fmt::format("{}", fmt::join(known_experiments(), ", ")))
      ->required();
  app.add_option("--scale", arguments->scale,
                 "paper, gpu (hours), cpu (drawn images, hours) or test (seconds, to see that all "
                 "of it runs)")
      ->check(CLI::IsMember(std::vector<std::string>(kScales.begin(), kScales.end())))
      ->capture_default_str();
  app.add_option(
         "--data", arguments->train,
         "training images, replacing the recipes': SOURCE for all image sets, or SET=SOURCE")
      ->type_name("SOURCE");
  app.add_option("--val", arguments->val, "validation images: SOURCE or SET=SOURCE")
      ->type_name("SOURCE");
  app.add_option("--out", arguments->out, "folder of runs and pages")
      ->capture_default_str()
      ->type_name("DIR");
  app.add_option("--jobs", arguments->jobs,
                 "runs at a time (default: one a GPU, or one on the CPU)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--seeds", arguments->seeds, "seeds, replacing the experiment's")
      ->check(check_seed)
      ->delimiter(',');
  app.add_option("--rows", arguments->rows,
                 "rows to run now, with the runs that they need (default: all); the page shows the "
                 "finished ones of all rows")
      ->delimiter(',');
  app.add_option("--minutes", arguments->minutes,
                 "begin no run after so many minutes; the same command goes on (default: no limit)")
      ->check(check_number(Range::above(0)));
  app.add_flag("--allow-pipe", arguments->allow_pipe,
               "run commands (pipe:) that the settings of a stored run name")
      ->group(kRare);
  auto* dry_run =
      app.add_flag("--dry-run", arguments->dry_run,
                   "print runs, steps and estimated time; for it, ten steps of each kind of run "
                   "without a log are timed");
  app.add_flag_callback(
         "--no-timing", [arguments] { arguments->timing = false; }, "with --dry-run: time nothing")
      ->needs(dry_run)
      ->group(kRare);
  app.footer(
      "Each run is a process with a folder of its own below OUT/runs. Finished runs are never\n"
      "repeated, stopped ones go on; a changed recipe is a new run. Exit code 3 if a run failed.");
  app.callback([arguments] { run_reproduce(*arguments); });
}

}  // namespace nsvq
