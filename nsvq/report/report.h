#pragma once

#include <filesystem>
#include <vector>

#include "nsvq/report/page_data.h"

namespace nsvq {

/// Writes run/report.html from what lies in the run folder (page_data.h), at any time of the run:
/// the page shows what is there and names what is missing. The page of a run that `goes_on` reloads
/// itself. Throws UserError if there is no such folder, RunError if the page cannot be written.
void write_report(const std::filesystem::path& run, bool goes_on = false);

/// Writes one page about several runs. Throws RunError if it cannot be written.
void write_page(const std::filesystem::path& out, const std::vector<PageRun>& runs,
                bool goes_on = false);

/// "small", or "small and 2 more runs".
std::string page_title(const std::vector<PageRun>& runs);

}  // namespace nsvq
