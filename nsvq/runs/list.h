#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "nsvq/runs/verdict.h"

namespace nsvq {

/// What a run's folder tells of it.
struct RunSummary {
  std::filesystem::path path;
  std::string name;         ///< the folder's name without its number: photos for runs/photos-2
  std::string state;        ///< finished, running, stopped or damaged
  std::string problem;      ///< what of it cannot be read; empty if nothing
  int64_t step = 0;         ///< done, of `total_steps`
  int64_t total_steps = 0;  ///< 0 if it is not known: by epochs, before the first checkpoint
  int64_t epoch = 0;        ///< finished ones
  std::map<std::string, double> evaluation;  ///< the last one
  // By list_runs alone:
  uint64_t bytes = 0;  ///< size of all its files
  Verdict verdict;     ///< how it went, if it is finished
};

/// The folders at or below one that hold a run, in order. Throws UserError if it cannot be read.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);

/// What a run's folder tells, apart from what list_runs adds. Nothing in it is changed.
RunSummary describe_run(const std::filesystem::path& run);

/// The runs at or below a folder, by their paths. Nothing in them is changed. Throws UserError if
/// the folder cannot be read.
std::vector<RunSummary> list_runs(const std::filesystem::path& folder);

}  // namespace nsvq
