#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nsvq/experiments/outcome/pages.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/report/chart.h"
#include "nsvq/report/page.h"

namespace nsvq {

namespace {

bool has_paper(const ExperimentOutcome& outcome, size_t column) {
  return std::any_of(outcome.rows.begin(), outcome.rows.end(),
                     [&](const auto& row) { return row.cells[column].paper.has_value(); });
}

/// Text that ends no cell of a Markdown table.
std::string in_table(std::string text) {
  std::replace(text.begin(), text.end(), '|', '/');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string markdown_table(const ExperimentOutcome& outcome) {
  std::string head = "| run |", rule = "|---|", body;
  for (size_t i = 0; i < outcome.columns.size(); ++i) {
    head += fmt::format(" {} |", in_table(outcome.columns[i].display.title));
    rule += "---|";
    if (!has_paper(outcome, i)) continue;
    head += " paper |";
    rule += "---|";
  }
  for (const auto& row : outcome.rows) {
    body += fmt::format("| {} |", in_table(row.title));
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const auto& display = outcome.columns[i].display;
      body += fmt::format(" {} |", in_table(cell_text(row.cells[i], display)));
      if (!has_paper(outcome, i)) continue;
      const auto& paper = row.cells[i].paper;
      body += fmt::format(" {} |", paper ? format_figure(*paper, display) : "–");
    }
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

Json number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

std::string png_uri(const std::filesystem::path& file) {
  const auto bytes = read_file(file);
  return data_uri("image/png", bytes);
}

/// A chart as nsvq/report/page/experiments.js draws it.
Json chart_json(const Chart& chart) {
  constexpr size_t most_points = 2000;
  Json json = {{"title", chart.title},   {"x_label", chart.x_label}, {"y_label", chart.y_label},
               {"log_x", chart.log_x},   {"log_y", chart.log_y},     {"beside", chart.beside},
               {"marks", Json::array()}, {"lines", Json::array()}};
  if (chart.y_range) json["y_range"] = {chart.y_range->first, chart.y_range->second};
  for (const auto& [x, name] : chart.marks) json["marks"].push_back({{"x", x}, {"name", name}});
  for (const auto& series : chart.series) json["lines"].push_back(line_data(series, most_points));
  return json;
}

}  // namespace

std::string outcome_markdown(const ExperimentOutcome& outcome) {
  const auto& experiment = *outcome.planned->experiment;
  std::string text = fmt::format("## {}\n\n", experiment.title);
  if (!experiment.about.empty()) text += experiment.about + "\n\n";
  text += outcome.setting + ".\n\n";
  if (!outcome.columns.empty()) text += markdown_table(outcome) + "\n";
  for (const auto& agreement : outcome.agreements) {
    text += fmt::format("- Rank correlation with the paper, {}: {:.2f} over {} rows\n",
                        agreement.column, agreement.correlation, agreement.rows);
  }
  for (const auto& note : outcome.notes) text += fmt::format("- {}\n", note);
  if (!outcome.claims.empty()) text += "\n| claim | here | why |\n|---|---|---|\n";
  for (const auto& claim : outcome.claims) {
    text += fmt::format("| {} | {} | {} |\n", in_table(claim.text), verdict_in_words(claim.verdict),
                        in_table(claim.why));
  }
  return text;
}

Json outcome_json(const ExperimentOutcome& outcome) {
  const auto& experiment = *outcome.planned->experiment;
  Json json = {{"name", experiment.name},    {"title", experiment.title}, {"scale", outcome.scale},
               {"setting", outcome.setting}, {"notes", outcome.notes},    {"rows", Json::array()},
               {"agreement", Json::array()}, {"claims", Json::array()}};
  for (const auto& row : outcome.rows) {
    Json one = {{"name", row.name}, {"title", row.title}};
    if (!row.problem.empty()) one["problem"] = row.problem;
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const auto& cell = row.cells[i];
      auto& figure = one["figures"][outcome.columns[i].name];
      figure["mean"] = number_or_null(cell.mean());
      figure["deviation"] = cell.spread();
      figure["values"] = cell.figures.values;
      if (!cell.figures.missing.empty()) figure["missing"] = cell.figures.missing;
      if (cell.paper) figure["paper"] = *cell.paper;
    }
    json["rows"].push_back(one);
  }
  for (const auto& one : outcome.agreements) {
    json["agreement"].push_back(
        {{"column", one.column}, {"rank_correlation", one.correlation}, {"rows", one.rows}});
  }
  for (const auto& claim : outcome.claims) {
    json["claims"].push_back(
        {{"text", claim.text}, {"verdict", verdict_in_words(claim.verdict)}, {"why", claim.why}});
  }
  return json;
}

Json outcome_page(const ExperimentOutcome& outcome) {
  auto json = outcome_json(outcome);
  const auto& experiment = *outcome.planned->experiment;
  json["about"] = experiment.about;
  json["columns"] = Json::array();
  for (const auto& column : outcome.columns) {
    json["columns"].push_back(
        {{"title", column.display.title}, {"higher", column.display.better == Better::higher}});
  }
  for (size_t r = 0; r < outcome.rows.size(); ++r) {
    auto& cells = json["rows"][r]["cells"] = Json::array();
    for (size_t i = 0; i < outcome.columns.size(); ++i) {
      const auto& cell = outcome.rows[r].cells[i];
      const auto& display = outcome.columns[i].display;
      cells.push_back({{"text", cell_text(cell, display)},
                       {"value", number_or_null(cell.mean())},
                       {"paper", cell.paper ? format_figure(*cell.paper, display) : ""}});
    }
  }
  json["charts"] = Json::array();
  for (const auto& chart : outcome.charts) json["charts"].push_back(chart_json(chart));
  json["pictures"] = Json::array();
  for (const auto& picture : outcome.pictures) {
    json["pictures"].push_back(
        {{"title", picture.title}, {"columns", picture.columns}, {"image", png_uri(picture.file)}});
  }
  return json;
}

}  // namespace nsvq
