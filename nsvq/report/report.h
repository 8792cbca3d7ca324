#pragma once

#include <filesystem>

namespace nsvq {

/// Writes run/report.html from what lies in the run folder (config.yaml, metrics.jsonl, samples/),
/// at any time of the run: the page shows what is there and names what is missing. The page of a
/// run that `goes_on` reloads itself. Throws UserError if there is no such folder, RunError if the
/// page cannot be written.
void write_report(const std::filesystem::path& run, bool goes_on = false);

}  // namespace nsvq
