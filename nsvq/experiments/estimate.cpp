#include "nsvq/experiments/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nsvq/core/count_of.h"
#include "nsvq/core/error.h"
#include "nsvq/data/source.h"
#include "nsvq/experiments/run_job.h"
#include "nsvq/experiments/seed_statistics.h"
#include "nsvq/report/run_log.h"
#include "nsvq/report/summary.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_folder.h"
#include "nsvq/train/run_list.h"

namespace nsvq {

namespace {

/// Numbers of images of sources, each opened once; 0 if it cannot be.
class ImageCounts {
 public:
  int64_t of(const Sources& sources) {
    const auto [found, fresh] = counts_.try_emplace(sources.text(), 0);
    if (fresh) found->second = count(sources);
    return found->second;
  }

 private:
  static int64_t count(const Sources& sources) {
    try {
      return open_source(sources)->size();
    } catch (const std::exception&) {
      return 0;
    }
  }
  std::map<std::string, int64_t> counts_;
};

int64_t all_steps(const PlannedRun& run, ImageCounts& images) {
  if (run.recipe.empty()) return 0;
  if (run.steps > 0) return run.steps;
  return run.epochs * (images.of(run.train) / std::max<int64_t>(run.batch, 1));
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

/// Bytes of runs' checkpoints: averaged weights, weights and Adam's two moments. Of equal models
/// one is made.
class CheckpointSizes {
 public:
  double of(const PlannedRun& run) {
    if (run.kind != "tokenizer") return 0;
    auto config = parse_config(run.recipe, run.name);
    std::string key;
    for (const auto& row : tokenizer_options(config).rows) {
      const bool shapes = row.key.starts_with("model.") || row.key.starts_with("quantizer.");
      if (shapes) key += row.key + "=" + row.value() + "\n";
    }
    const auto [found, fresh] = numbers_.try_emplace(key, 0);
    if (fresh) found->second = numbers_in(config);
    return 4.0 * 4.0 * found->second * static_cast<double>(config.checkpoint.keep);
  }

 private:
  static double numbers_in(const Config& config) {
    Tokenizer model(config);
    int64_t numbers = 0;
    for (const auto& tensor : model->parameters()) numbers += tensor.numel();
    for (const auto& tensor : model->buffers()) numbers += tensor.numel();
    return static_cast<double>(numbers);
  }
  std::map<std::string, double> numbers_;
};

std::string bytes_in_words(double bytes) {
  return bytes >= 1e9 ? fmt::format("{:.1f} GB", bytes / 1e9)
                      : fmt::format("{:.0f} MB", bytes / 1e6);
}

}  // namespace

std::vector<RunEstimate> estimate(const Plan& plan) {
  ImageCounts images;
  CheckpointSizes sizes;
  std::map<std::string, std::vector<double>> speeds;  // seconds of a pixel, by kind
  for (const auto& run : plan.runs) {
    if (const auto step = measured_step(run)) {
      speeds[run.kind].push_back(*step / pixels_of_a_step(run));
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
    one.steps = one.state == "finished" ? 0 : std::max<int64_t>(all_steps(run, images) - done, 0);
    const auto own = measured_step(run);
    const auto& others = speeds[run.kind];
    if (own || !others.empty()) {
      const double step = own ? *own : mean_of(others) * pixels_of_a_step(run);
      one.seconds = static_cast<double>(one.steps) * step;
    }
    one.bytes = sizes.of(run);
    estimates.push_back(one);
  }
  return estimates;
}

std::string describe_plan(const Plan& plan) {
  const auto estimates = estimate(plan);
  std::string text = fmt::format("{:<44} {:<9} {:>10} {:>14} {:>9}\n", "run", "state", "steps left",
                                 "time", "disk");
  double seconds = 0, bytes = 0;
  int64_t runs = 0, unknown = 0, steps = 0;
  for (size_t i = 0; i < estimates.size(); ++i) {
    if (!plan.runs[i].wanted) continue;
    ++runs;
    const auto& one = estimates[i];
    const bool trained = !plan.runs[i].recipe.empty();
    const auto time = !trained || one.steps == 0 ? ""
                      : one.seconds              ? duration_in_words(*one.seconds)
                                                 : "unknown";
    text +=
        fmt::format("{:<44} {:<9} {:>10} {:>14} {:>9}\n", plan.runs[i].folder.filename().string(),
                    one.state, one.steps, time, bytes_in_words(one.bytes));
    seconds += one.seconds.value_or(0);
    unknown += one.steps > 0 && !one.seconds ? 1 : 0;
    steps += one.steps;
    bytes += one.bytes;
  }
  text += fmt::format(
      "{} for {}: {} steps, {}{}, {} of disk\n", count_of(runs, "run"),
      count_of(std::ssize(plan.experiments), "experiment"), steps, duration_in_words(seconds),
      unknown > 0 ? fmt::format(" and {} of unknown time", count_of(unknown, "run")) : "",
      bytes_in_words(bytes));
  text +=
      "Time: steps left at the speed of the same run so far, else, by pixels, of trained runs of "
      "its\n"
      "kind in this folder; one run at a time, without evaluations.\n"
      "Disk: four copies of the weights a checkpoint.\n";
  return text;
}

}  // namespace nsvq
