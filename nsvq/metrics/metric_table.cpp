#include "nsvq/metrics/metric_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

struct Row {
  std::string name, label;
  MetricDisplay display;
  std::string choices;
};

/// Counts are whole numbers; what the registry does not know has four decimals.
Row count_row(const std::string& name, const std::string& label) {
  return {name, label, {.title = "", .chart = "", .axis = "", .unit = "", .decimals = 0}, ""};
}

/// Metrics in the order of the registry, then the counts and whatever else there is.
std::vector<Row> rows_of(const std::vector<MetricColumn>& columns, const Conventions& conventions) {
  std::set<std::string> names;
  for (const auto& column : columns) {
    for (const auto& [name, value] : column.values) names.insert(name);
  }
  std::vector<Row> rows;
  for (const auto& kind : metric_kinds()) {
    if (names.erase(kind.name) > 0) {
      rows.push_back({kind.name, kind.name, kind.display, kind.choices(conventions)});
    }
    if (const auto deviation = deviation_name(kind.name); names.erase(deviation) > 0) {
      rows.push_back({deviation, deviation, kind.display, "standard deviation over the parts"});
    }
  }
  if (names.erase("images") > 0) rows.push_back(count_row("images", "images"));
  if (names.erase("reference_images") > 0) {
    rows.push_back(count_row("reference_images", "reference images"));
  }
  if (names.erase("broken_images") > 0) rows.push_back(count_row("broken_images", "broken images"));
  for (const auto& name : names) rows.push_back({name, name, {}, ""});
  return rows;
}

std::string cell(const MetricColumn& column, const Row& row) {
  const auto value = column.values.find(row.name);
  return value == column.values.end() ? "-" : format_figure(value->second, row.display);
}

std::string without_blanks_behind(std::string line) {
  return line.erase(line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string metric_table(const std::vector<MetricColumn>& columns, const Conventions& conventions) {
  const auto rows = rows_of(columns, conventions);
  size_t label_width = 14;
  for (const auto& row : rows) label_width = std::max(label_width, row.label.size());
  const auto width = [](const MetricColumn& column) {
    return std::max<size_t>(10, column.title.size()) + 1;
  };
  std::string text;
  if (columns.size() > 1) {
    text = fmt::format("  {:{}}", "", label_width);
    for (const auto& column : columns) text += fmt::format("{:>{}}", column.title, width(column));
    text += "\n";
  }
  for (const auto& row : rows) {
    auto line = fmt::format("  {:{}}", row.label, label_width);
    for (const auto& column : columns) {
      line += fmt::format("{:>{}}", cell(column, row), width(column));
    }
    text += without_blanks_behind(line + fmt::format(" {:4} {}", row.display.unit, row.choices));
  }
  return text;
}

std::string metric_table(const std::map<std::string, double>& values,
                         const Conventions& conventions) {
  return metric_table({{"", values}}, conventions);
}

}  // namespace nsvq
