#include "nsvq/report/report.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/files/file.h"
#include "nsvq/report/page.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/runs/list.h"

namespace nsvq {

std::string page_title(const std::vector<PageRun>& runs) {
  if (runs.empty()) return "no runs";
  if (runs.size() == 1) return runs.front().name;
  return fmt::format(
      "{} and {}", runs.front().name,
      runs.size() == 2 ? runs.back().name : fmt::format("{} more runs", runs.size() - 1));
}

void write_page(const std::filesystem::path& out, const std::vector<PageRun>& runs, bool goes_on) {
  auto data = empty_page(page_title(runs), PageKind::whole);
  const auto limits = limits_for(runs.size());
  for (const PageRun& run : runs) data["runs"].push_back(page_data(run, limits));
  write_text(out, html_page(data, goes_on));
}

void write_report(const std::filesystem::path& run, const std::string& state) {
  if (!std::filesystem::is_directory(run))
    throw UserError("{}: no such run folder; give the folder that holds {}", run.string(),
                    kMetricsFile);
  PageRun page{run, run_name(run), state, {}, ""};
  page.no_codes = "The codebook is shown once the run has finished; until then by `nsvq report`.";
  write_page(run / kReportFile, {page}, state == "running");
}

void complete_report(const std::filesystem::path& run) {
  try {
    PageRun page{run, run_name(run), "finished", {}, ""};
    add_codes(page);
    write_page(run / kReportFile, {page});
  } catch (const std::exception& error) {
    log("{}: {}", (run / kReportFile).string(), error.what());
  }
}

PageRun page_run(const std::filesystem::path& run, const std::string& name, WithCodes codes) {
  const auto summary = describe_run(run);
  PageRun page{run, name, summary.state, {}, ""};
  // page_data reports problems of logs and settings.
  if (!list_checkpoints(run).empty()) page.problem = summary.problem;
  if (codes == WithCodes::yes) add_codes(page);
  return page;
}

void add_codes(PageRun& run) {
  try {
    run.codes = map_codes(run.path);
  } catch (const c10::Error& error) {
    run.no_codes = error.what_without_backtrace();
  } catch (const std::exception& error) {
    run.no_codes = error.what();
  }
}

}  // namespace nsvq
