#include "nsvq/cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "nsvq/metrics/metric.h"

namespace nsvq {

namespace {

/// How a figure is shown.
struct Style {
  const char* format;
  double scale;
  const char* unit;
};

// Figures that are not here have four digits after the point.
const std::map<std::string, Style> kStyles = {
    {"psnr", {"{:.2f}", 1, "dB"}},         {"psnr_pooled", {"{:.2f}", 1, "dB"}},
    {"utilisation", {"{:.1f}", 100, "%"}}, {"perplexity", {"{:.1f}", 1, ""}},
    {"entropy", {"{:.3f}", 1, "bit"}},     {"images", {"{:.0f}", 1, ""}},
    {"broken_images", {"{:.0f}", 1, ""}},
};

Style style_of(const std::string& name) {
  const auto found = kStyles.find(name);
  return found == kStyles.end() ? Style{"{:.4f}", 1, ""} : found->second;
}

struct Row {
  std::string name, label, choices;
};

/// Metrics in the order of the registry, then the counts and whatever else there is.
std::vector<Row> rows_of(const std::vector<MetricColumn>& columns, const Conventions& conventions) {
  std::set<std::string> names;
  for (const auto& column : columns) {
    for (const auto& [name, value] : column.values) names.insert(name);
  }
  std::vector<Row> rows;
  for (const auto& kind : metric_kinds()) {
    if (names.erase(kind.name) > 0) {
      rows.push_back({kind.name, kind.name, kind.choices(conventions)});
    }
  }
  if (names.erase("images") > 0) rows.push_back({"images", "images", ""});
  if (names.erase("broken_images") > 0) rows.push_back({"broken_images", "broken images", ""});
  for (const auto& name : names) rows.push_back({name, name, ""});
  return rows;
}

std::string cell(const MetricColumn& column, const std::string& name, const Style& style) {
  const auto value = column.values.find(name);
  if (value == column.values.end()) return "-";
  return fmt::format(fmt::runtime(style.format), value->second * style.scale);
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
    const auto style = style_of(row.name);
    auto line = fmt::format("  {:{}}", row.label, label_width);
    for (const auto& column : columns) {
      line += fmt::format("{:>{}}", cell(column, row.name, style), width(column));
    }
    text += without_blanks_behind(line + fmt::format(" {:4} {}", style.unit, row.choices));
  }
  return text;
}

std::string metric_table(const std::map<std::string, double>& values,
                         const Conventions& conventions) {
  return metric_table({{"", values}}, conventions);
}

}  // namespace nsvq
