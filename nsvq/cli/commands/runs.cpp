#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"

namespace nsvq {

namespace {

struct RunsArguments {
  std::string folder = kRunsFolder;
  JsonArgument json;
};

std::string size_in_words(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= 1e9) return fmt::format("{:.1f} GB", size / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} MB", size / 1e6);
  return fmt::format("{:.1f} kB", size / 1e3);
}

std::string figure(const RunSummary& run, const std::string& key, double scale) {
  const auto found = run.evaluation.find(key);
  if (found == run.evaluation.end()) return "-";
  const double value = scale * found->second;
  return std::abs(value) < 1e6 ? fmt::format("{:.2f}", value) : fmt::format("{:.3g}", value);
}

using Row = std::vector<std::string>;

Row row_of(const RunSummary& run) {
  const auto total = run.total_steps > 0 ? fmt::to_string(run.total_steps) : "?";
  return {printable(run.name),
          run.state,
          run.verdict.word.empty() ? "-" : run.verdict.word,
          fmt::format("{} of {}", run.step, total),
          figure(run, "psnr", 1),
          figure(run, "utilisation", 100),
          size_in_words(run.bytes),
          printable(run.path.string())};
}

void print_table(const std::vector<RunSummary>& runs) {
  std::vector<Row> rows = {
      {"name", "state", "verdict", "step", "PSNR dB", "codes used %", "size", "folder"}};
  for (const auto& run : runs) rows.push_back(row_of(run));
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const bool text = i < 3;  // numbers stand below each other
      line += text ? fmt::format("{:<{}}  ", row[i], widths[i])
                   : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    fmt::print("{}{}\n", line, row.back());
  }
}

Json runs_as_json(const std::vector<RunSummary>& runs) {
  auto all = Json::array();
  for (const auto& run : runs) {
    auto figures = Json::object();
    add_figures(figures, run.evaluation);
    all.push_back({{"path", run.path.string()},
                   {"name", run.name},
                   {"state", run.state},
                   {"verdict", run.verdict.word},
                   {"verdict_text", run.verdict.text},
                   {"step", run.step},
                   {"total_steps", run.total_steps},
                   {"epoch", run.epoch},
                   {"evaluation", figures},
                   {"bytes", run.bytes}});
    if (!run.problem.empty()) all.back()["problem"] = run.problem;
  }
  return all;
}

void run_runs(const RunsArguments& arguments) {
  JsonOutput output(arguments.json);
  const auto runs = list_runs(arguments.folder);
  if (runs.empty() && !output.wanted()) {
    throw UserError("{}: no runs in it or below", arguments.folder);
  }
  if (!runs.empty()) print_table(runs);
  flush_stdout();  // before lines about problems
  for (const auto& run : runs) {
    if (!run.problem.empty()) log("{}: {}", run.path.string(), run.problem);
  }
  output.write(runs_as_json(runs));
}

}  // namespace

void declare_runs(CLI::App& app) {
  const auto arguments = std::make_shared<RunsArguments>();
  const auto* folder =
      app.add_option("DIR", arguments->folder, "a folder with runs in it or below, or a run")
          ->capture_default_str();
  declare_json_argument(app, arguments->json);
  app.callback([arguments, folder] {
    // `--json DIR`: no folder is a FILE; - is standard output, whatever has that name.
    if (std::error_code ignored; folder->count() == 0 && arguments->json.file != "-" &&
                                 std::filesystem::is_directory(arguments->json.file, ignored)) {
      arguments->folder = std::exchange(arguments->json.file, "-");
    }
    run_runs(*arguments);
  });
}

}  // namespace nsvq
