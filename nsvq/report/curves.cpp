#include "nsvq/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace nsvq {
namespace {

std::set<std::pair<std::string, std::string>> known_keys() {
  std::set<std::pair<std::string, std::string>> known = {{"epoch", "seconds"}, {"epoch", "cut"}};
  for (const CurveTopic& topic : known_curves())
    for (const Curve& curve : topic.curves)
      for (const CurveLine& line : curve.lines) known.emplace(line.kind, line.key);
  return known;
}

// Limits for curves that no table names, and for lines in one of them: a log may hold any number of
// names, and each costs a pass over all records.
constexpr size_t kMostOtherCurves = 60;
constexpr size_t kMostOtherLines = 8;

/// "Other", or "Other (60 of 200)" where some are left out.
std::string with_shown(const std::string& title, size_t all, size_t most) {
  return all <= most ? title : fmt::format("{} ({} of {})", title, most, all);
}

/// Keys that no curve names: one curve a key, with a line for every kind of record that has it.
CurveTopic other_curves(const RunLog& log) {
  const auto known = known_keys();
  // Checks have histograms; the line about the validation images is one.
  const std::set<std::string> events = {"phase", "alarm", "check", "validation"};
  std::map<std::string, std::set<std::string>> kinds_of_key;
  for (const Record& record : log.records)
    if (!events.contains(record.kind))
      for (const auto& [key, value] : record.values)
        if (!known.contains({record.kind, std::string(key)}))
          kinds_of_key[std::string(key)].insert(record.kind);
  CurveTopic topic{with_shown("Other", kinds_of_key.size(), kMostOtherCurves), {}};
  for (const auto& [key, kinds] : kinds_of_key) {
    if (topic.curves.size() == kMostOtherCurves) break;
    Curve curve{with_shown(key, kinds.size(), kMostOtherLines), "", {}};
    for (const std::string& kind : kinds) {
      if (curve.lines.size() < kMostOtherLines) curve.lines.push_back({kind, key, kind});
    }
    topic.curves.push_back(std::move(curve));
  }
  return topic;
}

/// Whether small terms would lie on the axis. Zeros do not count: they are terms switched off.
bool wants_log(const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& one : series)
    for (const double y : one.y) {
      if (!std::isfinite(y) || y == 0) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  return low > 0 && high > 50 * low;
}

bool worth_drawing(const Series& series, bool decades) {
  return std::any_of(series.y.begin(), series.y.end(),
                     [&](double y) { return !decades || y != 0; });
}

/// The values of a key in the records of a kind. Where records lack it (adversarial terms in the
/// warm-up) the line is broken: nothing was measured there.
Series series_of(const RunLog& log, const CurveLine& line) {
  Series series{line.name, {}, {}};
  bool gap = false;
  for (const Record* record : log.of_kind_for(line.kind, line.key)) {
    const auto found = record->values.find(line.key);
    if (found == record->values.end()) {
      gap = !series.x.empty();
      continue;
    }
    if (std::exchange(gap, false)) {
      series.x.push_back(record->step);
      series.y.push_back(std::numeric_limits<double>::quiet_NaN());
    }
    series.x.push_back(record->step);
    series.y.push_back(found->second);
  }
  return series;
}

Chart make_chart(const RunLog& log, const Curve& curve) {
  Chart chart;
  chart.title = curve.title;
  chart.x_label = "step";
  chart.y_label = curve.y_label;
  for (const CurveLine& line : curve.lines) {
    Series series = series_of(log, line);
    if (worth_drawing(series, curve.decades)) chart.series.push_back(std::move(series));
  }
  chart.log_y = curve.decades && wants_log(chart.series);
  if (chart.log_y) chart.y_label += ", log scale";
  return chart;
}

}  // namespace

std::vector<ChartGroup> make_curves(const RunLog& log) {
  std::vector<CurveTopic> topics = known_curves();
  topics.push_back(other_curves(log));
  std::vector<ChartGroup> groups;
  for (const CurveTopic& topic : topics) {
    ChartGroup group{topic.title, {}};
    for (const Curve& curve : topic.curves) {
      Chart chart = make_chart(log, curve);
      if (!chart.series.empty()) group.charts.push_back(std::move(chart));
    }
    if (!group.charts.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace nsvq
