#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nsvq/report/page_data.h"

namespace nsvq {

/// Writes run/report.html from what the run's folder holds (page_data.h), at any time of the run:
/// the page shows what is there and names what is missing. `state` is that of RunSummary, empty if
/// it is not known; the page of a running one reloads itself. Throws UserError if there is no such
/// folder, RunError if the page cannot be written.
void write_report(const std::filesystem::path& run, const std::string& state = "");

/// Writes one page about several runs. Throws RunError if it cannot be written.
void write_page(const std::filesystem::path& out, const std::vector<PageRun>& runs,
                bool goes_on = false);

/// Writes a finished run's report.html with its codebook. A page that cannot be made is a line in
/// the log.
void complete_report(const std::filesystem::path& run);

enum class WithCodes { no, yes };

/// A run for a page, with its state and, if wanted, its codebook (or a sentence why not).
PageRun page_run(const std::filesystem::path& run, const std::string& name, WithCodes codes);

/// Adds the newest model's codebook, or the reason why it cannot be had.
void add_codes(PageRun& run);

/// "small", or "small and 2 more runs".
std::string page_title(const std::vector<PageRun>& runs);

}  // namespace nsvq
