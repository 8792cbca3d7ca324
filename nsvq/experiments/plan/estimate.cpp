#include "nsvq/experiments/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/experiments/plan/make_plan.h"
#include "nsvq/experiments/plan/next_command.h"
#include "nsvq/experiments/plan/run_view.h"
#include "nsvq/experiments/spec/comparison.h"
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

}  // namespace

std::vector<RunEstimate> estimate_runs(const Plan& plan) {
  ImageCounts images;
  std::vector<std::optional<double>> seconds_a_step;
  // Seconds of a pixel in the runs of a kind and number of GPUs.
  std::map<std::pair<std::string, int>, std::vector<double>> speeds;
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
    if (seconds_a_step.back()) {
      speeds[{run.kind, run.gpus}].push_back(*seconds_a_step.back() / pixels_of_a_step(run));
    }
  }
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const auto& run = plan.runs[i];
    const auto own = seconds_a_step[i];
    const auto& similar = speeds[{run.kind, run.gpus}];
    if (!estimates[i].steps || (!own && similar.empty())) continue;
    const double step = own ? *own : mean_of(similar) * pixels_of_a_step(run);
    estimates[i].seconds = static_cast<double>(*estimates[i].steps) * step;
  }
  return estimates;
}

std::string plan_table(const Plan& plan) {
  const auto estimates = estimate_runs(plan);
  constexpr auto kLine = "{:<44} {:<9} {:>10} {:>14}\n";
  auto text = fmt::format(kLine, "run", "state", "steps left", "time");
  double seconds = 0;
  int64_t runs = 0, unknown = 0, uncounted = 0, steps = 0;
  for (size_t i = 0; i < estimates.size(); ++i) {
    if (!plan.runs[i].wanted) continue;
    ++runs;
    const auto& one = estimates[i];
    const bool trained = !plan.runs[i].recipe.empty();
    const auto time = !trained || one.steps == 0 ? ""
                      : one.seconds              ? duration_in_words(*one.seconds)
                                                 : "unknown";
    const auto left = one.steps ? fmt::format("{}", *one.steps) : "unknown";
    text += fmt::format(kLine, plan.runs[i].folder.filename().string(), one.state, left, time);
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
      "Time: steps left at the speed of the same run so far, else, by pixels, of those of the "
      "runs\n"
      "above that have begun; one run at a time, without evaluations.\n";
  for (const auto& line : notes_of(plan)) text += line + "\n";
  return text;
}

}  // namespace nsvq
