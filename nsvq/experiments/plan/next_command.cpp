#include "nsvq/experiments/plan/next_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/data/sources/overlap.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/generation/config.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

using Words = std::vector<std::string>;

/// Whether neither training's last evaluation nor `nsvq eval` has all metrics of the run.
bool lacks_metrics(const RunView& view) {
  const auto& metrics = view.planned().metrics;
  return std::any_of(metrics.begin(), metrics.end(),
                     [&](const auto& name) { return !view.evaluation().contains(name); });
}

Words with_sources(Words words, const std::string& option, const Sources& sources) {
  words.push_back(option);
  words.insert(words.end(), sources.items.begin(), sources.items.end());
  return words;
}

Words training_command(const PlannedRun& run) {
  auto words = find_named(run_spec_kinds(), "kind", run.kind).train;
  words.push_back((run.folder / kReproducedRecipe).string());
  if (trains(run.kind, RunKind::tokenizer) && !run.metrics.empty()) {
    words.push_back(fmt::format("train.metrics=[{}]", fmt::join(run.metrics, ",")));
  }
  words.insert(words.end(), {"--run", run.run().string()});
  if (run.gpus > 1) words.insert(words.end(), {"--gpus", std::to_string(run.gpus)});
  return words;
}

Words with_run_and_outputs(Words words, const PlannedRun& run) {
  words.insert(words.end(),
               {run.run().string(), "--metrics", fmt::format("{}", fmt::join(run.metrics, ",")),
                "--force", "--json", run.figures().string()});
  return words;
}

Words tokenizer_evaluation(const PlannedRun& run) {
  auto words = with_run_and_outputs({"eval"}, run);
  if (shared_images(run.val, run.train)) words.emplace_back("--on-training-images");
  return with_sources(std::move(words), "--data", run.val);
}

/// `command` compares samples with images.
Words sample_evaluation(const std::string& command, const PlannedRun& run) {
  auto words = with_run_and_outputs({command, "eval"}, run);
  words.insert(words.end(),
               {"--count", std::to_string(run.samples), "--data", run.val.items.front()});
  return words;
}

Words evaluation_command(const PlannedRun& run) {
  switch (trained_by(run.kind)) {
    case RunKind::tokenizer:
      return tokenizer_evaluation(run);
    case RunKind::diffusion:
      return sample_evaluation("diffusion", run);
    case RunKind::generator:
      return sample_evaluation("generate", run);
  }
  return {};
}

Words making_command(const RunView& view) {
  const auto& run = view.planned();
  auto words = find_named(run_spec_kinds(), "kind", run.kind).make;
  if (run.kind == "kmeans") words.push_back(view.plan().runs[run.needs.front()].run().string());
  words.insert(words.end(),
               {"--force", "--out", run.file().string(), "--json", run.figures().string()});
  words.insert(words.end(), run.options.begin(), run.options.end());
  return with_sources(std::move(words), "--data", run.train);
}

/// Settings in which a finished run differs from the planned one, as text. Files that it was made
/// of may have moved with the folder of all runs.
template <std::derived_from<RunConfig> Config>
Words different_settings(const RunView& view) {
  const auto here = parse_config<Config>(view.recipe(), kReproducedRecipe);
  const auto there = view.settings<Config>();
  auto differences = essential_differences(here, there);
  const auto add = [&](const char* key, const auto& ours, const auto& theirs) {
    if (ours == theirs) return;
    differences.push_back(fmt::format("{} ({} here, {} there)", key, ours, theirs));
  };
  add("train.steps", here.train.steps, there.train.steps);
  if (here.train.steps == 0) add("train.epochs", here.train.epochs, there.train.epochs);
  add("data.train", here.data.train.text(), there.data.train.text());
  return differences;
}

Words different_settings(const RunView& view) {
  switch (trained_by(view.planned().kind)) {
    case RunKind::tokenizer:
      return different_settings<TokenizerConfig>(view);
    case RunKind::diffusion:
      return different_settings<DiffusionConfig>(view);
    case RunKind::generator:
      return different_settings<GenerationConfig>(view);
  }
  return {};
}

/// The name of a folder has a hash of the settings, but what lies in it may come from anywhere.
void require_planned_run(const RunView& view) {
  const auto differences = different_settings(view);
  if (differences.empty()) return;
  throw UserError("{}: holds a run of another configuration: {}; remove it or choose another --out",
                  view.planned().run().string(), fmt::join(differences, ", "));
}

}  // namespace

Words next_command(const RunView& view) {
  if (!view.trains()) return view.made() ? Words{} : making_command(view);
  if (!view.finished()) return training_command(view.planned());
  require_planned_run(view);
  return lacks_metrics(view) ? evaluation_command(view.planned()) : Words{};
}

bool is_done(const RunView& view) {
  try {
    return next_command(view).empty();
  } catch (const std::exception&) {  // the run's job says why
    return false;
  }
}

}  // namespace nsvq
