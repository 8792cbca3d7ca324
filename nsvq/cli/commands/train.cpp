#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/cli/program/training.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/report/report.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/train/vq/trainer.h"

namespace nsvq {

namespace {

void print_result(const TokenizerConfig& config, const std::filesystem::path& run,
                  const Outcome& outcome) {
  auto text = fmt::format("\n{} on {}\n{}", printable(run.string()),
                          printable(config.data.val.text()), metric_table(outcome.evaluation));
  if (const auto samples = newest_samples(run); !samples.empty()) {
    text +=
        fmt::format("  reconstructions (below their images): {}\n", printable(samples.string()));
  }
  text += fmt::format("  report: {}\n", printable((run / kReportFile).string()));
  print_last_words(text + verdict_line(run));
}

void train_as_rank(const TrainArguments& arguments, const TokenizerConfig& config,
                   const std::shared_ptr<Group>& group, std::optional<StopAtOnceGuard>& starting) {
  note_table_of(config.quantizer, config.model.latent_dim);
  note_networks("model.width, model.multipliers or model.blocks");
  auto [run, start, lock, reserved] =
      agree_on_run(match_of(config), run_request(arguments), *group);
  Trainer trainer(config, run, group, start, std::move(lock), forked_run(arguments, start));
  warn_of_seen_validation(config.data);
  starting.reset();
  note_batch_size("train.batch_size=", config.train.batch_size,
                  "train.recompute=true, or a lower data.size or model.width");
  const auto outcome = train_with_verdict(run, [&] { return trainer.loop().train(); });
  if (outcome.finished) {
    if (group->leads()) complete_report(run);
    // A rank that has ended would seem lost to one that is still writing.
    group->sum({at::zeros({1})});
    if (group->leads()) print_result(config, run, outcome);
  }
  if (outcome.finished) return;
  if (group->leads()) {
    print_last_words(
        fmt::format("stopped; to resume:\n  {}\n", resume_command("train", run, config.data)));
  }
  throw Interrupted();
}

void run_train(const TrainArguments& arguments) {
  catch_interrupts();
  std::optional<StopAtOnceGuard> starting(std::in_place);
  const auto launch = launch_from_environment();
  set_quiet(launch.rank != 0);
  const auto config =
      with_home(load_recipe_or_run(arguments.recipe, arguments.overrides, arguments.allow_pipe));
  require_trained(config.quantizer);
  const auto group = join_ranks_to_train(launch, config.dist, config.device);
  work_as_rank(*group, [&] { train_as_rank(arguments, config, group, starting); });
}

/// The setting `device`. What the settings say is left to the processes that are started.
std::string device_of(const TrainArguments& arguments) {
  struct Quiet {
    Quiet() { set_quiet(true); }
    ~Quiet() { set_quiet(false); }
  } quiet;
  return load_recipe_or_run(arguments.recipe, arguments.overrides, arguments.allow_pipe).device;
}

}  // namespace

void declare_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  declare_train_arguments(app, *arguments, "configs/quickstart.yaml");
  app.callback([arguments] {
    if (arguments->gpus <= 1) return run_train(*arguments);
    start_on_gpus(arguments->gpus, device_of(*arguments));
  });
}

}  // namespace nsvq
