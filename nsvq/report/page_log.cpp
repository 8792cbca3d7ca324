// What the page shows of a run's log (log_data).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/report/chart.h"
#include "nsvq/report/curves.h"
#include "nsvq/report/page_data.h"
#include "nsvq/report/summary.h"

namespace nsvq {
namespace {

Json charts_data(const RunLog& log, size_t points) {
  auto charts = Json::array();
  for (const ChartGroup& group : make_curves(log)) {
    for (const Chart& chart : group.charts) {
      auto lines = Json::array();
      for (const Series& series : chart.series) lines.push_back(line_data(series, points));
      charts.push_back({{"topic", group.title},
                        {"title", chart.title},
                        {"unit", chart.y_label},
                        {"log", chart.log_y},
                        {"lines", lines}});
    }
  }
  return charts;
}

constexpr size_t kMostEpochs = 2000;

/// Steps at which epochs ended, with their numbers and the seconds of training so far, from which
/// the page computes epoch and time of any step.
Json clock_data(const RunLog& log) {
  std::vector<double> steps = {0}, epochs = {0}, seconds = {0};
  for (const Record* record : log.of_kind("epoch")) {
    const auto found = record->values.find("seconds");
    const double more = found == record->values.end() ? 0 : found->second;
    if (!(record->step > steps.back())) continue;
    steps.push_back(record->step);
    epochs.push_back(std::max(record->epoch, epochs.back()));
    seconds.push_back(seconds.back() + (std::isfinite(more) ? std::max(more, 0.0) : 0));
  }
  const size_t every = (steps.size() - 1) / kMostEpochs + 1;
  Json clock = {{"step", Json::array()}, {"epoch", Json::array()}, {"time", Json::array()}};
  for (size_t i = 0; i < steps.size();
       i = i + 1 < steps.size() ? std::min(i + every, steps.size() - 1) : i + 1) {
    clock["step"].push_back(short_number(steps[i]));
    clock["epoch"].push_back(short_number(epochs[i]));
    clock["time"].push_back(short_number(seconds[i]));
  }
  return clock;
}

Json figure_data(const Figure& figure) {
  // A PSNR of infinity sorts as the highest.
  const double value = std::isinf(figure.value) ? std::copysign(1e300, figure.value) : figure.value;
  return {{"value", short_number(value)}, {"text", figure.text}, {"epoch", figure.epoch}};
}

Json results_data(const RunLog& log) {
  auto out = Json::array();
  for (const MetricResult& result : results(log)) {
    out.push_back({{"title", result.title},
                   {"last", figure_data(result.last)},
                   {"best", figure_data(result.best)},
                   {"first", figure_data(result.first)}});
  }
  return out;
}

Json phases_data(const RunLog& log) {
  auto out = Json::array();
  for (const Record& phase : log.phases()) {
    out.push_back({{"name", phase.phase},
                   {"epoch", phase.epoch},
                   {"step", phase.step},
                   {"reason", phase.reason}});
  }
  return out;
}

Json alarms_data(const RunLog& log) {
  auto out = Json::array();
  for (const RaisedAlarm& alarm : raised_alarms(log)) {
    out.push_back({{"when", epochs_in_words(alarm.epochs)},
                   {"text", alarm.reason.empty() ? alarm.sign : alarm.reason},
                   {"steps", short_numbers(alarm.steps)}});
  }
  return out;
}

/// The errors that train.check measured.
Json checks_data(const RunLog& log) {
  const auto checks = log.of_kind("check");
  if (checks.empty()) return nullptr;
  std::map<std::string, std::vector<double>> errors;
  for (const Record* check : checks)
    for (const auto& [key, value] : check->values) errors[std::string(key)].push_back(value);
  auto histograms = Json::array();
  const auto add = [&](const std::string& title, const std::vector<double>& values) {
    auto bars = Json::array();
    for (const Bar& bar : decade_bars(values))
      bars.push_back({{"label", bar.label}, {"range", bar.range}, {"count", bar.count}});
    histograms.push_back({{"title", title}, {"bars", bars}});
  };
  const std::vector<std::pair<std::string, std::string>> known = {
      {"index_mismatch", "Share of latents with another index"},
      {"code_distance_gap", "Their squared distances, relative difference"},
      {"loss_error", "Quantizer loss, relative error"},
      {"latent_gradient_error", "Gradient of the latents, relative error"},
      {"codebook_gradient_error", "Gradient of the codebook, relative error"}};
  for (const auto& [key, title] : known)
    if (const auto values = errors.extract(key)) add(title, values.mapped());
  for (const auto& [key, values] : errors) add(key, values);
  return {{"count", checks.size()}, {"histograms", histograms}};
}

}  // namespace

Json log_data(const RunLog& log, size_t points) {
  const auto phases = log.phases();
  return {{"facts", run_facts(log)},
          {"step", log.last_step()},
          {"epoch", log.last_epoch()},
          {"seconds", short_number(training_seconds(log))},
          {"phase", phases.empty() ? "" : phases.back().phase},
          {"results", results_data(log)},
          {"alarms", alarms_data(log)},
          {"phases", phases_data(log)},
          {"clock", clock_data(log)},
          {"charts", charts_data(log, points)},
          {"checks", checks_data(log)}};
}

}  // namespace nsvq
