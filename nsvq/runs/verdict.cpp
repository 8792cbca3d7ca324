#include "nsvq/runs/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/runs/config.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/trend.h"

namespace nsvq {

namespace {

constexpr auto kTryLowerRate = "try a lower optimizer.lr in a new run";

const Record* last_record(const RunLog& log, const std::string& kind) {
  const auto records = log.of_kind(kind);
  return records.empty() ? nullptr : records.back();
}

/// NaN where the record lacks the key or there is no record.
double figure_in(const Record* record, const std::string& key) {
  if (!record) return NAN;
  const auto found = record->values.find(key);
  return found == record->values.end() ? NAN : found->second;
}

/// Whether a figure was written down as not finite.
bool is_spoiled(const Record* record, const std::string& key) {
  return record && record->values.contains(key) && !std::isfinite(figure_in(record, key));
}

/// The values of evaluations on the images that the last ones are of: a fork may have other images
/// than the run that it goes on from.
std::vector<std::pair<double, double>> of_same_images(const RunLog& log, const std::string& key) {
  auto values = log.values("eval", key);
  const auto images = log.of_kind("validation");
  if (images.size() < 2) return values;
  std::erase_if(values, [&](const auto& point) { return point.first < images.back()->step; });
  return values;
}

/// The mean over the lines of the last tenth of the steps.
double mean_at_end(const RunLog& log, const std::string& key) {
  const double from = 0.9 * log.last_step();
  double sum = 0, count = 0;
  for (const auto& [step, value] : log.values("step", key)) {
    if (step < from) continue;
    sum += value;
    ++count;
  }
  return sum / count;
}

/// The mean error of training per pixel, as far as the losses have one.
Trend training_error(const RunLog& log) {
  auto absolute = log.values("step", "l1");
  if (!absolute.empty()) {
    return {"the training error", TrendOf::absolute_error, std::move(absolute)};
  }
  return {"the training error", TrendOf::squared_error, log.values("step", "l2")};
}

/// What a log says of the end of a run. A figure that it lacks is NaN.
struct Ending {
  explicit Ending(const RunLog& log);

  /// By the evaluations or, where they are too few, the lines of steps.
  void find_trend();
  bool still_rises() const { return gain > kStillRising; }
  bool worse_than_grey() const {
    return psnr < (std::isnan(grey) ? kLeastGrey : grey - kWorseThanGrey);
  }
  /// Whether training was worse than a grey picture at any time of its second half.
  bool exploded() const;
  /// Whether fewer than a share of the codes are in use. A few images may have fewer tokens than
  /// there are codes; logs that do not say so have more of them in their last epoch.
  bool collapsed(double least_used) const;

  std::string against_grey() const;
  std::string figure_in_words() const;
  std::string codes_in_words() const;
  std::string directions_in_words() const;

  const RunLog& log;
  const Record *eval, *epoch, *drift, *images;
  double psnr, grey;
  double loss;  ///< of an evaluation without PSNR
  double used;  ///< share of the codes
  double discriminator;
  Trend error, trend;
  double gain = NAN;  ///< of the trend
};

Ending::Ending(const RunLog& run_log)
    : log(run_log),
      eval(last_record(log, "eval")),
      epoch(last_record(log, "epoch")),
      drift(last_record(log, "drift")),
      images(last_record(log, "validation")),
      psnr(figure_in(eval, "psnr")),
      grey(figure_in(images, "grey_psnr")),
      loss(figure_in(eval, "loss")),
      used(figure_in(eval, "utilisation")),
      discriminator(mean_at_end(log, "discriminator")),
      error(training_error(log)) {
  const auto counted = log.of_kind_for("epoch", "utilisation");
  if (std::isnan(used) && !counted.empty()) used = figure_in(counted.back(), "utilisation");
  find_trend();
}

void Ending::find_trend() {
  const bool by_loss = !std::isnan(loss);
  trend = by_loss
              ? Trend{"the validation loss", TrendOf::squared_error, of_same_images(log, "loss")}
              : Trend{"PSNR", TrendOf::decibels, of_same_images(log, "psnr")};
  gain = gain_of_evaluations(trend, kLastPart);
  if (!std::isnan(gain)) return;
  trend = by_loss ? Trend{"the training loss", TrendOf::squared_error, log.values("step", "loss")}
                  : error;
  gain = gain_of_steps(trend, log.last_step());
}

bool Ending::exploded() const {
  const double half = log.last_step() / 2;
  return std::ranges::any_of(error.points, [&](const auto& point) {
    return point.first > half && point.second > kGreyError;
  });
}

bool Ending::collapsed(double least_used) const {
  const double tokens = figure_in(images, "tokens"), codes = figure_in(images, "codes");
  if (codes > 0) return used < least_used * std::min(1.0, tokens / codes);
  const auto counted = log.of_kind_for("epoch", "utilisation");
  const auto* last = counted.empty() ? nullptr : counted.back();
  return std::fmax(used, figure_in(last, "utilisation")) < least_used;
}

std::string Ending::against_grey() const {
  return fmt::format("PSNR {:.2f} dB against {}", psnr,
                     std::isnan(grey) ? fmt::format("at least {} dB", kLeastGrey)
                                      : fmt::format("{:.2f} dB", grey));
}

std::string Ending::figure_in_words() const {
  if (std::isnan(psnr)) return std::isnan(loss) ? "" : fmt::format("validation loss {:.4g}", loss);
  const auto text = fmt::format("PSNR {:.2f} dB", psnr);
  return std::isnan(grey) ? text : text + fmt::format(", a grey picture {:.2f} dB", grey);
}

std::string Ending::codes_in_words() const {
  return std::isnan(used) ? "" : fmt::format("{:.3g} % of the codes in use", 100 * used);
}

std::string Ending::directions_in_words() const {
  const double latents = figure_in(drift, "latents_participation");
  const double codes = figure_in(drift, "codes_participation");
  if (std::isnan(latents)) return "";
  const auto text = fmt::format("latents vary in {:.1f} directions", latents);
  return std::isnan(codes) ? text : text + fmt::format(", codes in {:.1f}", codes);
}

/// Why a run counts as diverged; empty if it does not.
std::string why_diverged(const Ending& end) {
  if (is_spoiled(end.epoch, "loss") || is_spoiled(last_record(end.log, "step"), "loss")) {
    return "the training loss is not finite";
  }
  if (is_spoiled(end.eval, "loss") || is_spoiled(end.eval, "psnr")) {
    return "the evaluation is not finite";
  }
  // After a few steps reconstructions are worse than a grey picture too, but get better.
  const bool few = end.log.last_step() < kFewSteps;
  const bool gets_better = !end.exploded() && (few || !(end.gain <= kStillRising));
  if (end.psnr < kLeastGrey || (end.worse_than_grey() && !gets_better)) {
    return "reconstructions are worse than a grey picture: " + end.against_grey();
  }
  const auto& error = end.error.points;
  if (std::isnan(end.psnr) && !error.empty() && error.back().second > kGreyError) {
    return fmt::format("the training error is {:.3g}, of a grey picture at most {}",
                       error.back().second, kGreyError);
  }
  const auto losses = end.log.values("step", "loss");
  if (!std::isnan(end.loss) && !losses.empty() &&
      losses.back().second > kGrownLoss * losses.front().second) {
    return fmt::format("the training loss has grown from {:.3g} to {:.3g}", losses.front().second,
                       losses.back().second);
  }
  return "";
}

/// Why a run counts as undertrained; empty if it does not.
std::string why_undertrained(const Ending& end) {
  if (end.worse_than_grey()) {
    return "reconstructions are not better than a grey picture yet: " + end.against_grey();
  }
  return end.still_rises() ? gain_in_words(end.trend, end.gain) : "";
}

/// What also holds. The reason may be among it, and texts that are empty.
std::vector<std::string> remarks(const Ending& end, const std::string& word) {
  const bool diverged = word == "diverged";
  const bool has_figure = diverged || (word == "undertrained" && end.worse_than_grey());
  const double skipped = figure_in(end.epoch, "skipped");
  return {has_figure ? "" : end.figure_in_words(),
          end.codes_in_words(),
          end.still_rises() && !diverged ? gain_in_words(end.trend, end.gain) : "",
          end.directions_in_words(),
          end.discriminator < kDiscriminatorWins
              ? fmt::format("the discriminator wins: its loss is {:.2g}", end.discriminator)
              : "",
          skipped > 0 ? fmt::format("steps skipped as not finite: {:.0f}", skipped) : "",
          diverged ? kTryLowerRate : ""};
}

/// Whether numbers that were not finite ended training. Resuming would have cut that line off.
bool ended_as_nonfinite(const RunLog& log) {
  return !log.records.empty() && log.records.back().kind == "alarm" &&
         log.records.back().sign == kNonfiniteSign;
}

Verdict make_verdict(const std::string& word, const std::string& reason,
                     std::vector<std::string> others) {
  std::erase_if(others, [&](const auto& text) { return text.empty() || text == reason; });
  return {word, fmt::format("{} ({}){}{}", word, reason, others.empty() ? "" : "; ",
                            fmt::join(others, "; "))};
}

}  // namespace

Verdict verdict_of(const RunLog& log, bool finished, double least_used) {
  if (ended_as_nonfinite(log)) {
    return make_verdict("diverged",
                        fmt::format("numbers that were not finite ended training at step {:.0f}",
                                    log.records.back().step),
                        {kTryLowerRate});
  }
  if (!finished) return {};
  const Ending end(log);
  const auto verdict = [&](const char* word, const std::string& reason) {
    return make_verdict(word, reason, remarks(end, word));
  };
  if (const auto reason = why_diverged(end); !reason.empty()) return verdict("diverged", reason);
  if (end.collapsed(least_used)) return verdict("collapsed", end.codes_in_words());
  if (const auto reason = why_undertrained(end); !reason.empty()) {
    return verdict("undertrained", reason);
  }
  for (const auto& text : remarks(end, "fine")) {
    if (!text.empty()) return verdict("fine", text);
  }
  return {};
}

Verdict verdict_of_run(const std::filesystem::path& run, const RunLog& log, bool finished) {
  AlarmConfig alarm;
  try {
    read_stored_settings(alarm_options(alarm), run);
  } catch (const UserError&) {  // the defaults, then
  }
  return verdict_of(log, finished, alarm.utilisation);
}

Verdict verdict_of_run(const std::filesystem::path& run, bool finished) {
  try {
    return verdict_of_run(run, read_thinned_run_log(run / kMetricsFile), finished);
  } catch (const UserError&) {
    return {};
  }
}

}  // namespace nsvq
