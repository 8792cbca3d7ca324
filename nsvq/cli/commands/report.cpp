#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/report/report.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  bool no_codes = false, force = false;
};

/// A run, or all runs below a folder.
std::vector<fs::path> runs_named(const std::string& name) {
  std::error_code ignored;
  if (!fs::is_directory(name, ignored)) {
    throw UserError("{}: {}", name,
                    fs::exists(name, ignored) ? "not a run's folder" : "no such folder");
  }
  auto runs = find_runs(name);
  // A copied run may be its log alone.
  if (runs.empty() && fs::exists(fs::path(name) / kMetricsFile, ignored)) runs.push_back(name);
  if (runs.empty()) throw UserError("{}: no run in it or below", name);
  return runs;
}

/// The folders' names, with as many of the folders above as tell them apart.
std::vector<std::string> distinct_names(const std::vector<fs::path>& runs) {
  std::vector<std::string> names;
  std::map<std::string, int> count;
  for (const auto& run : runs) ++count[run_name(run)];
  for (const auto& run : runs) {
    const auto name = run_name(run);
    names.push_back(count[name] == 1 ? name : fs::absolute(run).lexically_normal().string());
  }
  return names;
}

std::vector<fs::path> all_runs(const std::vector<std::string>& names) {
  std::vector<fs::path> runs;
  for (const auto& name : names) {
    for (const auto& run : runs_named(name)) {
      const bool known = std::ranges::any_of(runs, [&](const fs::path& other) {
        std::error_code ignored;
        return fs::equivalent(run, other, ignored);
      });
      if (!known) runs.push_back(run);
    }
  }
  return runs;
}

void run_report(const ReportArguments& arguments) {
  check_output_files({{"--out", arguments.out, ".html"}}, arguments.force);
  const auto runs = all_runs(arguments.runs);
  if (arguments.out.empty() && runs.size() == 1) refuse_device(runs.front() / kReportFile);
  const auto names = distinct_names(runs);
  const auto codes = arguments.no_codes ? WithCodes::no : WithCodes::yes;
  std::vector<PageRun> pages;
  for (size_t i = 0; i < runs.size(); ++i) {
    pages.push_back(page_run(runs[i], names[i], codes));
    if (arguments.no_codes) pages.back().no_codes = "Left out by --no-codes.";
  }
  fs::path out = arguments.out;
  if (out.empty()) out = (runs.size() == 1 ? runs.front() : fs::path(".")) / kReportFile;
  const bool goes_on =
      std::ranges::any_of(pages, [](const auto& run) { return run.state == "running"; });
  // Only a run's own page is written again as it goes on.
  write_page(out, pages, goes_on && runs.size() == 1 && arguments.out.empty());
  fmt::print("{}\n", printable(out.lexically_normal().string()));
}

}  // namespace

void declare_report(CLI::App& app) {
  const auto arguments = std::make_shared<ReportArguments>();
  app.add_option("RUN", arguments->runs, "runs, or folders with runs below")->required();
  app.add_option("--out", arguments->out,
                 "the page (default: report.html in the run, of several runs in this folder)");
  declare_force(app, arguments->force);
  app.add_flag("--no-codes", arguments->no_codes,
               "without maps of the codebooks, for which each run's newest model is loaded");
  app.footer(
      "One HTML file that needs nothing else: curves, results and settings side by side,\n"
      "reconstructions, codebooks. nsvq watch shows the same page of runs that go on.");
  app.callback([arguments] { run_report(*arguments); });
}

}  // namespace nsvq
