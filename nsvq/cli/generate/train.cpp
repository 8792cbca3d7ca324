#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/generate/generate.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/rank_process.h"
#include "nsvq/cli/program/training.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/generation/generator_trainer.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

GenerationConfig load_generation_settings(const TrainArguments& arguments) {
  return with_home(load_recipe_or_run<GenerationConfig>(
      arguments.recipe, with_sections(arguments.overrides), arguments.allow_pipe));
}

/// What the evaluations were made on.
std::string evaluated_on(const GenerationConfig& config) {
  if (!config.val_tokens.empty()) return " on " + config.val_tokens;
  return config.tokenizer.empty() ? "" : " on " + config.data.val.text();
}

void train_generator_as_rank(const TrainArguments& arguments, const GenerationConfig& config,
                             const std::shared_ptr<Group>& group,
                             std::optional<StopAtOnceGuard>& starting) {
  note_networks("generator.width or generator.depth");
  auto [run, start, lock, reserved] =
      agree_on_run(match_of(config), run_request(arguments), *group);
  GeneratorTrainer trainer(config, run, group, start, std::move(lock),
                           forked_run(arguments, start));
  if (training_data_key(config) == "data.train" && config.val_tokens.empty()) {
    warn_of_seen_validation(config.data);
  }
  starting.reset();
  note_batch_size("train.batch_size=", config.train.batch_size, "a lower generator.width");
  const auto outcome = train_with_verdict(run, [&] { return trainer.loop().train(); });
  if (!outcome.finished) {
    if (group->leads()) {
      print_last_words(fmt::format("stopped; to resume:\n  {}\n",
                                   resume_command("generate train", run, config.data)));
    }
    throw Interrupted();
  }
  if (!group->leads()) return;
  auto text = fmt::format("\n{}{}\n", run.string(), evaluated_on(config));
  if (const auto loss = outcome.evaluation.find("loss"); loss != outcome.evaluation.end()) {
    text += fmt::format("  loss     {:.4f} (perplexity {:.1f})\n", loss->second,
                        std::exp(loss->second));
  }
  if (const auto samples = newest_samples(run); !samples.empty()) {
    text += fmt::format("  samples: {}\n", samples.string());
  }
  text += fmt::format("  report: {}\n", (run / kReportFile).string());
  print_last_words(text + verdict_line(run));
}

void run_generate_train(const TrainArguments& arguments) {
  catch_interrupts();
  std::optional<StopAtOnceGuard> starting(std::in_place);
  const auto launch = launch_from_environment();
  set_quiet(launch.rank != 0);
  const auto config = load_generation_settings(arguments);
  const auto group = join_ranks_to_train(launch, config.dist, config.device);
  work_as_rank(*group, [&] { train_generator_as_rank(arguments, config, group, starting); });
}

}  // namespace

void declare_generate_train(CLI::App& app) {
  const auto arguments = std::make_shared<TrainArguments>();
  declare_train_arguments(app, *arguments,
                          "configs/generate/small.yaml with tokens=FOLDER tokenizer=RUN");
  app.callback([arguments] {
    if (arguments->gpus <= 1) return run_generate_train(*arguments);
    start_on_gpus(arguments->gpus, load_generation_settings(*arguments).device);
  });
}

}  // namespace nsvq
