#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/printable.h"
#include "nsvq/train/run_list.h"

namespace nsvq {

namespace {

struct RunsArguments {
  std::string folder = "runs";
  bool json = false;
};

std::string size_in_words(uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= 1e9) return fmt::format("{:.1f} GB", size / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} MB", size / 1e6);
  return fmt::format("{:.1f} kB", size / 1e3);
}

std::string figure(const RunSummary& run, const std::string& key, double scale) {
  const auto found = run.evaluation.find(key);
  return found == run.evaluation.end() ? "-" : fmt::format("{:.2f}", scale * found->second);
}

using Row = std::vector<std::string>;

Row row_of(const RunSummary& run) {
  const auto total = run.total_steps > 0 ? fmt::to_string(run.total_steps) : "?";
  return {printable(run.name),
          run.state,
          fmt::format("{} of {}", run.step, total),
          figure(run, "psnr", 1),
          figure(run, "utilisation", 100),
          size_in_words(run.bytes),
          printable(run.path.string())};
}

void print_table(const std::vector<RunSummary>& runs) {
  std::vector<Row> rows = {{"name", "state", "step", "PSNR dB", "codes used %", "size", "folder"}};
  for (const auto& run : runs) rows.push_back(row_of(run));
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const bool text = i < 2;  // numbers stand below each other
      line += text ? fmt::format("{:<{}}  ", row[i], widths[i])
                   : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    fmt::print("{}{}\n", line, row.back());
  }
}

void print_json(const std::vector<RunSummary>& runs) {
  auto all = nlohmann::ordered_json::array();
  for (const auto& run : runs) {
    all.push_back({{"path", run.path.string()},
                   {"name", run.name},
                   {"state", run.state},
                   {"step", run.step},
                   {"total_steps", run.total_steps},
                   {"epoch", run.epoch},
                   {"evaluation", run.evaluation},
                   {"bytes", run.bytes}});
  }
  // Names of folders may be any bytes.
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void run_runs(const RunsArguments& arguments) {
  const auto runs = list_runs(arguments.folder);
  if (arguments.json) return print_json(runs);
  if (runs.empty()) throw UserError("{}: no runs in it or below", arguments.folder);
  print_table(runs);
}

}  // namespace

void declare_runs(CLI::App& app) {
  const auto arguments = std::make_shared<RunsArguments>();
  app.add_option("DIR", arguments->folder, "a folder with runs in it or below, or a run")
      ->capture_default_str();
  app.add_flag("--json", arguments->json, "print JSON instead of a table");
  app.callback([arguments] { run_runs(*arguments); });
}

}  // namespace nsvq
