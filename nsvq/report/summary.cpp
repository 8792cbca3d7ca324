#include "nsvq/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "nsvq/metrics/metric.h"

namespace nsvq {
namespace {

struct Quantity {
  std::string key;
  MetricDisplay display;
  bool known;  ///< to the registry, which tells its direction
};

/// The metrics of the evaluations in the order of the registry, then unknown ones by name.
std::vector<Quantity> quantities(const std::vector<const Record*>& evals) {
  std::set<std::string> seen;
  for (const Record* eval : evals)
    for (const auto& [key, value] : eval->values) seen.insert(std::string(key));
  std::vector<Quantity> out;
  const auto add_if_seen = [&](const std::string& key, const MetricDisplay& display) {
    if (seen.erase(key) > 0) out.push_back({key, display, true});
  };
  for (const MetricKind& kind : metric_kinds()) {
    add_if_seen(kind.name, kind.display);
    for (const std::string& name : kind.other_names) add_if_seen(name, kind.display);
  }
  for (const std::string& key : seen)
    out.push_back({key, {.title = key, .chart = "", .axis = "", .unit = ""}, false});
  return out;
}

double value_of(const Record& record, const std::string& key) {
  const auto found = record.values.find(key);
  return found == record.values.end() ? std::nan("") : found->second;
}

/// The best evaluation; null where nothing is finite or the direction of the metric is not known.
const Record* best_of(const std::vector<const Record*>& evals, const Quantity& quantity) {
  if (!quantity.known) return nullptr;
  const Record* best = nullptr;
  for (const Record* eval : evals) {
    const double value = value_of(*eval, quantity.key);
    if (!std::isfinite(value)) continue;
    const double record = best ? value_of(*best, quantity.key) : value;
    const bool higher = quantity.display.better == Better::higher;
    if (!best || (higher ? value > record : value < record)) best = eval;
  }
  return best;
}

std::string format_value(double value, const Quantity& quantity) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "-∞";
  const auto& unit = quantity.display.unit;
  return format_figure(value, quantity.display) + (unit.empty() ? "" : " " + unit);
}

std::string grouped(double number) {
  const std::string digits = fmt::format("{:.0f}", number);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

/// "1 epoch", "1,200 epochs".
std::string counted(double number, const std::string& thing) {
  return grouped(number) + " " + thing + (number == 1 ? "" : "s");
}

Figure figure_of(const Record* eval, const Quantity& quantity) {
  if (!eval) return {std::nan(""), "–", 0};
  const double value = value_of(*eval, quantity.key);
  return {value, format_value(value, quantity), eval->epoch};
}

}  // namespace

std::vector<RaisedAlarm> raised_alarms(const RunLog& log) {
  std::vector<RaisedAlarm> alarms;
  std::unordered_map<std::string, size_t> index_of;  // by sign
  for (const Record* record : log.of_kind("alarm")) {
    const auto [found, fresh] = index_of.try_emplace(record->sign, alarms.size());
    if (fresh) alarms.push_back({record->sign, "", {}, {}});
    auto& alarm = alarms[found->second];
    alarm.reason = record->reason;
    if (!alarm.epochs.empty() && alarm.epochs.back() == record->epoch) continue;
    alarm.epochs.push_back(record->epoch);
    alarm.steps.push_back(record->step);
  }
  return alarms;
}

std::string epochs_in_words(const std::vector<double>& epochs) {
  std::string out = epochs.size() == 1 ? "epoch" : "epochs";
  for (size_t first = 0, end = 0; first < epochs.size(); first = end) {
    for (end = first + 1; end < epochs.size() && epochs[end] <= epochs[end - 1] + 1;) ++end;
    out += fmt::format("{} {:.0f}", first > 0 ? "," : "", epochs[first]);
    if (end > first + 1) out += fmt::format(" to {:.0f}", epochs[end - 1]);
  }
  return out;
}

std::string duration_in_words(double seconds) {
  if (!(seconds >= 0 && seconds < 1e12)) return "unknown time";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 100) return fmt::format("{} s", whole);
  const int64_t minutes = (whole + 30) / 60;
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

double training_seconds(const RunLog& log) {
  double seconds = 0;
  for (const auto& [step, value] : log.values("epoch", "seconds"))
    if (std::isfinite(value)) seconds += value;
  return seconds;
}

std::string run_facts(const RunLog& log) {
  if (log.records.empty()) return {};
  const double seconds = training_seconds(log);
  std::string facts = counted(log.last_epoch(), "epoch") + ", " + counted(log.last_step(), "step");
  if (seconds > 0) facts += ", " + duration_in_words(seconds) + " of training";
  const auto phases = log.phases();
  if (!phases.empty()) facts += ", phase " + phases.back().phase;
  const size_t alarms = raised_alarms(log).size();
  if (alarms > 0) facts += ", " + counted(static_cast<double>(alarms), "alarm");
  return facts;
}

std::vector<MetricResult> results(const RunLog& log) {
  const auto evals = log.of_kind("eval");
  std::vector<MetricResult> out;
  if (evals.empty()) return out;
  for (const Quantity& quantity : quantities(evals)) {
    out.push_back({quantity.display.title, figure_of(evals.back(), quantity),
                   figure_of(best_of(evals, quantity), quantity),
                   figure_of(evals.front(), quantity)});
  }
  return out;
}

}  // namespace nsvq
