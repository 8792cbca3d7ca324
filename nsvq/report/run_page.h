#pragma once

#include <filesystem>
#include <string>

#include "nsvq/report/page_data.h"

namespace nsvq {

enum class WithCodes { no, yes };

/// A run for a page, with its state and, if wanted, its codebook (or a sentence why not).
PageRun page_run(const std::filesystem::path& run, const std::string& name, WithCodes codes);

/// Adds the newest model's codebook, or the reason why it cannot be had.
void add_codes(PageRun& run);

/// A finished run's report.html with its codebook. A page that cannot be made is a line in the log.
void complete_report(const std::filesystem::path& run);

}  // namespace nsvq
