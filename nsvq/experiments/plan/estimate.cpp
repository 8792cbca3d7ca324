#include "nsvq/experiments/plan/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/experiments/outcome/seed_statistics.h"
#include "nsvq/experiments/plan/checkpoint_sizes.h"
#include "nsvq/experiments/run/run_job.h"
#include "nsvq/report/summary.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"
#include "nsvq/runs/log.h"

namespace nsvq {

namespace {

/// Numbers of images of sources, each opened once; none if it cannot be.
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

/// Seconds of a step, by the images per second in a run's log.
std::optional<double> measured_step(const PlannedRun& run) {
  std::error_code ignored;
  const auto log = run.run() / kMetricsFile;
  if (!std::filesystem::exists(log, ignored)) return std::nullopt;
  std::vector<double> rates;
  for (const auto& [step, rate] : read_run_log(log).values("step", "images_per_second")) {
    if (rate > 0) rates.push_back(rate);
  }
  if (rates.empty()) return std::nullopt;
  return static_cast<double>(run.batch) / median_of(rates);
}

std::string bytes_in_words(double bytes) {
  return bytes >= 1e9 ? fmt::format("{:.1f} GB", bytes / 1e9)
                      : fmt::format("{:.0f} MB", bytes / 1e6);
}

}  // namespace

std::vector<RunEstimate> estimate(const Plan& plan) {
  ImageCounts images;
  CheckpointSizes sizes;
  // Seconds of a pixel, by kind and number of GPUs.
  std::map<std::pair<std::string, int>, std::vector<double>> speeds;
  for (const auto& run : plan.runs) {
    if (const auto step = measured_step(run)) {
      speeds[{run.kind, run.gpus}].push_back(*step / pixels_of_a_step(run));
    }
  }
  std::vector<RunEstimate> estimates;
  for (size_t i = 0; i < plan.runs.size(); ++i) {
    const auto& run = plan.runs[i];
    RunEstimate one;
    std::error_code ignored;
    const bool begun = std::filesystem::exists(run.run(), ignored);
    const int64_t done = begun ? describe_run(run.run()).step : 0;
    one.state = is_done(plan, i) ? "finished" : begun ? "begun" : "to do";
    const auto steps = all_steps(run, images);
    one.steps = steps ? std::optional(std::max<int64_t>(*steps - done, 0)) : std::nullopt;
    if (one.state == "finished") one.steps = 0;
    const auto own = measured_step(run);
    const auto& others = speeds[{run.kind, run.gpus}];
    if (one.steps && (own || !others.empty())) {
      const double step = own ? *own : mean_of(others) * pixels_of_a_step(run);
      one.seconds = static_cast<double>(*one.steps) * step;
    }
    if (one.state != "finished") one.bytes = sizes.of(plan, run);
    estimates.push_back(one);
  }
  return estimates;
}

std::string describe_plan(const Plan& plan) {
  const auto estimates = estimate(plan);
  std::string text = fmt::format("{:<44} {:<9} {:>10} {:>14} {:>9}\n", "run", "state", "steps left",
                                 "time", "disk");
  double seconds = 0, bytes = 0;
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
    text +=
        fmt::format("{:<44} {:<9} {:>10} {:>14} {:>9}\n", plan.runs[i].folder.filename().string(),
                    one.state, left, time, one.bytes > 0 ? bytes_in_words(one.bytes) : "");
    seconds += one.seconds.value_or(0);
    unknown += !one.seconds && one.steps != 0 ? 1 : 0;
    uncounted += one.steps ? 0 : 1;
    steps += one.steps.value_or(0);
    bytes += one.bytes;
  }
  text += fmt::format(
      "{} for {}: {} steps{}, {}{}, {} more on disk\n", count_of(runs, "run"),
      count_of(std::ssize(plan.experiments), "experiment"), steps,
      uncounted > 0 ? fmt::format(" and those of {} whose images are not there (--data)",
                                  count_of(uncounted, "run"))
                    : "",
      seconds > 0 || unknown == 0 ? duration_in_words(seconds) : "time unknown",
      seconds > 0 && unknown > 0 ? fmt::format(" and {} of unknown time", count_of(unknown, "run"))
                                 : "",
      bytes_in_words(bytes));
  text +=
      "Time: steps left at the speed of the same run so far, else, by pixels, of those of the "
      "runs\n"
      "above that have begun; one run at a time, without evaluations.\n"
      "Disk: four copies of a tokenizer's or U-Net's weights and three of a discriminator's a "
      "checkpoint;\n"
      "files of codes are not counted.\n";
  for (const auto& line : notes_of(plan)) text += line + "\n";
  return text;
}

}  // namespace nsvq
