#include "nsvq/report/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/io/files/file.h"
#include "nsvq/report/page.h"

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

void write_report(const std::filesystem::path& run, bool goes_on) {
  if (!std::filesystem::is_directory(run))
    throw UserError("{}: no such run folder; give the folder that holds metrics.jsonl",
                    run.string());
  PageRun page{run, run_name(run), goes_on ? "running" : "", {}, ""};
  page.no_codes = "The codebook is shown once the run has finished; until then by `nsvq report`.";
  write_page(run / "report.html", {page}, goes_on);
}

}  // namespace nsvq
