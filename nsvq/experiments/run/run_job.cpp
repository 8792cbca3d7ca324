#include "nsvq/experiments/run/run_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>

#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/diffusion/diffusion_trainer.h"
#include "nsvq/experiments/plan/pilots.h"
#include "nsvq/experiments/run/evaluated.h"
#include "nsvq/experiments/spec/job_kind.h"
#include "nsvq/io/files/file.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"

namespace nsvq {

namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Metrics that neither training's last evaluation nor `nsvq eval` has.
Words missing_metrics(const PlannedRun& run) {
  const auto known = evaluated(run);
  Words missing;
  for (const auto& name : run.metrics) {
    if (!known.contains(name)) missing.push_back(name);
  }
  return missing;
}

Words with_sources(Words words, const std::string& option, const Sources& sources) {
  words.push_back(option);
  words.insert(words.end(), sources.items.begin(), sources.items.end());
  return words;
}

Words training_command(const PlannedRun& run) {
  auto words = find_named(job_kinds(), "kind", run.kind).train;
  words.push_back((run.folder / kReproducedRecipe).string());
  if (trains(run.kind, RunKind::tokenizer) && !run.metrics.empty()) {
    words.push_back(fmt::format("train.metrics=[{}]", fmt::join(run.metrics, ",")));
  }
  words.insert(words.end(), {"--run", run.run().string()});
  if (run.gpus > 1) words.insert(words.end(), {"--gpus", std::to_string(run.gpus)});
  return words;
}

Words evaluation_command(const PlannedRun& run) {
  const auto metrics = fmt::format("{}", fmt::join(run.metrics, ","));
  const auto json = run.figures().string();
  if (trains(run.kind, RunKind::diffusion)) {
    return {"diffusion",
            "eval",
            run.run().string(),
            "--count",
            std::to_string(run.samples),
            "--data",
            run.val.items.front(),
            "--metrics",
            metrics,
            "--force",
            "--json",
            json};
  }
  return with_sources({"eval", run.run().string(), "--metrics", metrics, "--force", "--json", json},
                      "--data", run.val);
}

Words making_command(const Plan& plan, const PlannedRun& run) {
  auto words = find_named(job_kinds(), "kind", run.kind).make;
  if (run.kind == "kmeans") words.push_back(plan.runs[run.needs.front()].run().string());
  words.insert(words.end(),
               {"--force", "--out", run.file().string(), "--json", run.figures().string()});
  words.insert(words.end(), run.options.begin(), run.options.end());
  return with_sources(std::move(words), "--data", run.train);
}

/// Settings in which a finished run differs from the planned one, as text. Files that it was made
/// of may have moved with the folder of all runs.
template <std::derived_from<RunConfig> Config>
Words other_settings(const Plan& plan, const PlannedRun& run) {
  const auto here = parse_config<Config>(recipe_of(plan, run), kReproducedRecipe);
  const auto there = load_run_config<Config>(run.run());
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

/// The name of a folder has a hash of the settings, but what lies in it may come from anywhere.
void require_planned_run(const Plan& plan, const PlannedRun& run) {
  const auto differences = trains(run.kind, RunKind::diffusion)
                               ? other_settings<DiffusionConfig>(plan, run)
                               : other_settings<TokenizerConfig>(plan, run);
  if (differences.empty()) return;
  throw UserError("{}: holds a run of another configuration: {}; remove it or choose another --out",
                  run.run().string(), fmt::join(differences, ", "));
}

Words next_command(const Plan& plan, const PlannedRun& run) {
  if (run.recipe.empty()) {
    return is_there(run.file()) && is_there(run.figures()) ? Words{} : making_command(plan, run);
  }
  const bool begun = is_there(run.run());
  if (!begun || describe_run(run.run()).state != "finished") return training_command(run);
  require_planned_run(plan, run);
  return missing_metrics(run).empty() ? Words{} : evaluation_command(run);
}

}  // namespace

Job job_of(const Plan& plan, size_t run, int threads) {
  const auto& planned = plan.runs.at(run);
  const auto& pilots = planned.pilots.runs;
  std::vector<size_t> needs;
  for (const size_t need : planned.needs) {
    if (std::find(pilots.begin(), pilots.end(), need) == pilots.end()) needs.push_back(need);
  }
  return {planned.folder.filename().string(),
          planned.folder,
          needs,
          pilots,
          [&plan, &planned, threads] {
            auto words = next_command(plan, planned);
            if (!words.empty() && planned.wanted && !planned.recipe.empty()) {
              write_text(planned.folder / kReproducedRecipe, recipe_of(plan, planned));
            }
            const bool trains = std::find(words.begin(), words.end(), "train") != words.end();
            if (trains && threads > 0) words.push_back(fmt::format("threads={}", threads));
            return words;
          },
          planned.wanted,
          planned.gpus,
          planned.alone};
}

bool is_done(const Plan& plan, size_t run) {
  try {
    return next_command(plan, plan.runs.at(run)).empty();
  } catch (const std::exception&) {  // the run's job says why
    return false;
  }
}

}  // namespace nsvq
