#include "nsvq/report/report.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/report/alarms.h"
#include "nsvq/report/chart.h"
#include "nsvq/report/curves.h"
#include "nsvq/report/histogram.h"
#include "nsvq/report/html.h"
#include "nsvq/report/page.h"
#include "nsvq/report/run_log.h"
#include "nsvq/report/samples.h"
#include "nsvq/report/summary.h"

namespace nsvq {
namespace {

std::optional<std::string> text_if_there(const std::filesystem::path& path) {
  try {
    return read_text(path);
  } catch (const UserError&) {
    return {};
  }
}

std::string notice(const std::string& text) {
  return "<p class=\"notice\">" + escape_html(text) + "</p>\n";
}

std::optional<RunLog> log_if_there(const std::filesystem::path& path) {
  try {
    return read_run_log(path);
  } catch (const UserError&) {
    return {};
  }
}

std::string metrics_notices(bool there, const RunLog& log) {
  if (!there) return notice("metrics.jsonl is missing: no results and no curves to show.");
  std::string out;
  if (log.unreadable > 0)
    out +=
        notice(fmt::format("{} of metrics.jsonl could not be read and {} left out.",
                           log.unreadable == 1 ? "1 line" : fmt::format("{} lines", log.unreadable),
                           log.unreadable == 1 ? "was" : "were"));
  if (log.records.empty())
    out += notice("metrics.jsonl has no records yet.");
  else if (log.of_kind("eval").empty())
    out += notice("metrics.jsonl has no evaluation yet.");
  return out;
}

// The page's width inside its margins, whole and halved (page.cpp).
constexpr uint32_t page_width = 1072;
constexpr uint32_t half_width = 526;

/// The last grid large; below it, small, the first and a middle one to see the way there.
std::string sample_section(const std::vector<SampleFile>& samples, const RunLog& log) {
  if (samples.empty()) return notice("samples/ has no epoch-NNNN.png: no pictures to show.");
  const auto figure = [](const SampleFile& sample, const char* more, uint32_t room) {
    return sample_figure(sample, fmt::format("Epoch {}{}", sample.epoch, more), room);
  };
  const bool generated = !log.records.empty() && log.records.back().phase == "denoise";
  std::string out = figure(samples.back(),
                           generated ? ": generated from noise that is the same in each epoch"
                                     : ": images above, their reconstructions below",
                           page_width);
  if (samples.size() == 1) return out;
  out += "<div class=\"pair\">\n" + figure(samples.front(), ", the first", half_width);
  // Of two in the middle the earlier: most of the change comes early.
  if (samples.size() > 2)
    out += figure(samples[(samples.size() - 1) / 2], ", half way", half_width);
  return out + "</div>\n";
}

std::string curve_section(const RunLog& log) {
  std::string out;
  for (const ChartGroup& group : make_curves(log)) {
    out += "<h3>" + escape_html(group.title) + "</h3>\n<div class=\"charts\">\n";
    for (const Chart& chart : group.charts) out += to_svg(chart) + "\n";
    out += "</div>\n";
  }
  return out.empty() ? out : "<h2>Curves</h2>\n" + out;
}

/// The errors that train.check measured.
std::string check_section(const RunLog& log) {
  const auto checks = log.of_kind("check");
  if (checks.empty()) return {};
  std::map<std::string, std::vector<double>> errors;
  for (const Record* check : checks)
    for (const auto& [key, value] : check->values) errors[std::string(key)].push_back(value);
  std::string out = fmt::format(
      "<h2>Fast quantizer path against the plain one</h2>\n<p>{} of train.check: how often an "
      "error was of which size.</p>\n<div class=\"charts\">\n",
      checks.size() == 1 ? "1 check" : fmt::format("{} checks", checks.size()));
  const std::vector<std::pair<std::string, std::string>> known = {
      {"index_mismatch", "Share of latents with another index"},
      {"code_distance_gap", "Their squared distances, relative difference"},
      {"loss_error", "Quantizer loss, relative error"},
      {"latent_gradient_error", "Gradient of the latents, relative error"},
      {"codebook_gradient_error", "Gradient of the codebook, relative error"}};
  for (const auto& [key, title] : known)
    if (const auto values = errors.extract(key))
      out += decade_histogram(title, values.mapped()) + "\n";
  for (const auto& [key, values] : errors) out += decade_histogram(key, values) + "\n";
  return out + "</div>\n";
}

std::string config_section(const std::optional<std::string>& config) {
  if (!config) return notice("config.yaml is missing: the settings of this run are not known.");
  return "<details>\n<summary>Configuration</summary>\n<pre>" + escape_html(*config) +
         "</pre>\n</details>\n";
}

std::string table_block(const std::string& table) {
  return table.empty() ? "" : "<div class=\"scroll\">\n" + table + "</div>\n";
}

/// Of "runs/small/" and of "." too.
std::string folder_name(const std::filesystem::path& run) {
  std::filesystem::path path = std::filesystem::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

void write_report(const std::filesystem::path& run, bool goes_on) {
  if (!std::filesystem::is_directory(run))
    throw UserError("{}: no such run folder; give the folder that holds metrics.jsonl",
                    run.string());
  auto metrics = log_if_there(run / "metrics.jsonl");
  const bool has_metrics = metrics.has_value();
  const RunLog log = std::move(metrics).value_or(RunLog{});
  const std::string phases = table_block(phase_table(log));

  const std::string title = folder_name(run);
  std::string body = "<h1>" + escape_html(title) + "</h1>\n";
  body += "<p class=\"facts\">" + escape_html(run_facts(log)) + "</p>\n";
  body += alarm_notices(log);
  body += metrics_notices(has_metrics, log);
  body += table_block(result_table(log));
  body += sample_section(find_samples(run), log);
  body += curve_section(log);
  body += check_section(log);
  if (!phases.empty()) body += "<h2>Phases</h2>\n" + phases;
  body += config_section(text_if_there(run / "config.yaml"));
  write_text(run / "report.html", html_page(title, body, goes_on));
}

}  // namespace nsvq
