#include "nsvq/experiments/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/plan/run_view.h"
#include "nsvq/experiments/spec/comparison.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/report/summary.h"

namespace nsvq {

namespace {

/// Numbers of images of sources, each opened once; nullopt if it cannot be.
class ImageCounts {
 public:
  std::optional<int64_t> of(const Sources& sources) {
    const auto [found, fresh] = counts_.try_emplace(sources.text());
    if (fresh) found->second = count(sources);
    return found->second;
  }

 private:
  static std::optional<int64_t> count(const Sources& sources) {
    try {
      return open_source(sources)->size();
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  std::map<std::string, std::optional<int64_t>> counts_;
};

std::optional<int64_t> all_steps(const PlannedRun& run, ImageCounts& images) {
  if (run.recipe.empty()) return 0;
  if (run.steps > 0) return run.steps;
  const auto count = images.of(run.train);
  if (!count) return std::nullopt;
  return run.epochs * (*count / std::max<int64_t>(run.batch, 1));
}

double pixels_of_a_step(const PlannedRun& run) {
  return static_cast<double>(run.batch) * static_cast<double>(run.size * run.size);
}

/// Speeds that are known: seconds of a step by speed_key, and of a pixel by kind and GPUs.
struct Speeds {
  std::map<std::string, std::vector<double>> of_key;
  std::map<std::pair<std::string, int>, std::vector<double>> of_kind;
};

/// Sets a run's time by the best speed that is known of it. `own` is its logged seconds of a step.
void set_time(const PlannedRun& run, std::optional<double> own, const Speeds& speeds,
              const StepTimes& timed, RunEstimate& estimate) {
  const auto key = speed_key(run);
  const auto equal = speeds.of_key.find(key);
  const auto measured = timed.find(key);
  const auto similar = speeds.of_kind.find({run.kind, run.gpus});
  double step = 0;
  if (own) {
    step = *own;
    estimate.by = "its own steps";
  } else if (equal != speeds.of_key.end()) {
    step = median_of(equal->second);
    estimate.by = "an equal run";
  } else if (measured != timed.end()) {
    step = measured->second;
    estimate.by = "timed steps";
  } else if (similar != speeds.of_kind.end()) {
    step = mean_of(similar->second) * pixels_of_a_step(run);
    estimate.by = "others, by pixels";
  } else {
    return;
  }
  estimate.seconds = static_cast<double>(*estimate.steps) * step;
}

}  // namespace

std::string speed_key(const PlannedRun& run) {
  if (!trains(run.kind, RunKind::tokenizer)) return fmt::format("{}\n{}", run.kind, run.recipe);
  auto config = parse_config<TokenizerConfig>(run.recipe, "recipe");
  const TokenizerConfig usual;
  config.seed = usual.seed;
  config.data.train = config.data.val = Sources();
  config.train.steps = usual.train.steps;
  config.train.epochs = usual.train.epochs;
  config.optimizer.lr = usual.optimizer.lr;
  config.quantizer.tau = usual.quantizer.tau;
  config.quantizer.alpha = usual.quantizer.alpha;
  config.adversarial.start_step = usual.adversarial.start_step;
  config.schedule = {.phases = config.schedule.phases};
  return fmt::format("{} GPUs\n{}", run.gpus, to_yaml(config));
}

std::vector<size_t> runs_to_time(const Plan& plan) {
  std::set<std::string> known;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const bool trained = !plan.runs[i].recipe.empty();
    if (trained && RunView(plan, i).seconds_a_step()) known.insert(speed_key(plan.runs[i]));
  }
  std::vector<size_t> runs;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const auto& run = plan.runs[i];
    const bool one_process = trains(run.kind, RunKind::tokenizer) && run.gpus == 1;
    if (!run.wanted || !one_process || is_done(RunView(plan, i))) continue;
    if (known.insert(speed_key(run)).second) runs.push_back(i);
  }
  return runs;
}

std::vector<RunEstimate> estimate_runs(const Plan& plan, const StepTimes& timed) {
  ImageCounts images;
  std::vector<std::optional<double>> seconds_a_step;
  Speeds speeds;
  std::vector<RunEstimate> estimates;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const RunView view(plan, i);
    const auto& run = view.planned();
    RunEstimate one;
    one.state = is_done(view) ? "finished" : view.begun() ? "begun" : "to do";
    const auto steps = all_steps(run, images);
    one.steps = steps ? std::optional(std::max<int64_t>(*steps - view.step(), 0)) : std::nullopt;
    if (one.state == "finished") one.steps = 0;
    estimates.push_back(one);
    seconds_a_step.push_back(view.seconds_a_step());
    if (const auto& own = seconds_a_step.back()) {
      speeds.of_key[speed_key(run)].push_back(*own);
      speeds.of_kind[{run.kind, run.gpus}].push_back(*own / pixels_of_a_step(run));
    }
  }
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const auto& run = plan.runs[i];
    if (!estimates[i].steps || run.recipe.empty()) continue;
    set_time(run, seconds_a_step[i], speeds, timed, estimates[i]);
  }
  return estimates;
}

std::string plan_table(const Plan& plan, const StepTimes& timed) {
  const auto estimates = estimate_runs(plan, timed);
  constexpr auto kLine = "{:<44} {:<9} {:>10} {:>14}  {}\n";
  auto text = fmt::format(kLine, "run", "state", "steps left", "time", "by");
  double seconds = 0;
  int64_t runs = 0, unknown = 0, uncounted = 0, steps = 0;
  for (size_t i = 0; i < estimates.size(); ++i) {
    if (!plan.runs[i].wanted) continue;
    ++runs;
    const auto& one = estimates[i];
    const bool nothing = plan.runs[i].recipe.empty() || one.steps == 0;
    const auto time = nothing ? "" : one.seconds ? duration_in_words(*one.seconds) : "unknown";
    const auto left = one.steps ? fmt::format("{}", *one.steps) : "unknown";
    text += fmt::format(kLine, plan.runs[i].folder.filename().string(), one.state, left, time,
                        nothing ? "" : one.by);
    seconds += one.seconds.value_or(0);
    unknown += !one.seconds && one.steps != 0 ? 1 : 0;
    uncounted += one.steps ? 0 : 1;
    steps += one.steps.value_or(0);
  }
  text += fmt::format(
      "{} for {}: {} steps{}, {}{}\n", count_of(runs, "run"),
      count_of(std::ssize(plan.experiments), "experiment"), steps,
      uncounted > 0 ? fmt::format(" and those of {} whose images are not there (--data)",
                                  count_of(uncounted, "run"))
                    : "",
      seconds > 0 || unknown == 0 ? duration_in_words(seconds) : "time unknown",
      seconds > 0 && unknown > 0 ? fmt::format(" and {} of unknown time", count_of(unknown, "run"))
                                 : "");
  text +=
      "Time: steps left at the speed of the run's own log, else of an equal run's, which differs "
      "in seed or\nlearning rate, else of ten steps timed now on random images, else, by pixels, "
      "of the logs of others;\none run at a time, without evaluations.\n";
  for (const auto& line : notes_of(plan)) text += line + "\n";
  return text;
}

}  // namespace nsvq
