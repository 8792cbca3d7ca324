#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/report/code_map.h"

namespace nsvq {

/// A run for the page, with what the caller knows of it beyond its logs.
struct PageRun {
  std::filesystem::path path;
  std::string name;   ///< on the page; runs of a page have different ones
  std::string state;  ///< finished, running, ...; empty if it is not known
  std::optional<CodeMap> codes;
  std::string no_codes;      ///< why there is no CodeMap
  std::string problem = {};  ///< what of it cannot be read, beyond its logs and pictures
};

/// How much of a run goes onto a page.
struct PageLimits {
  size_t points = 2000;               ///< of a curve
  size_t pictures = 24;               ///< of a run
  size_t picture_bytes = 24u << 20;   ///< of a run
  std::string picture_address;        ///< where a server has them; empty: inside the page
  std::filesystem::path inside = {};  ///< files that lead out of this folder are left out
};

/// Limits for a page of so many runs that it stays a few tens of MB.
PageLimits limits_for(size_t runs);

enum class PageKind { whole, live };  ///< with its runs inside, or one that fetches them

/// A page's data without runs: `title`, `live`, the order of the curves' `topics`, `runs`.
nlohmann::ordered_json empty_page(const std::string& title, PageKind kind);

/// What the page shows of a run, from what lies in its folder (config.yaml, metrics.jsonl,
/// samples/): results, curves thinned to the limits, phases, alarms, settings, pictures. What is
/// missing or cannot be read is named in `notices`.
nlohmann::ordered_json page_data(const PageRun& run, const PageLimits& limits);

/// The codebook's part alone, for a server that makes it when it is asked for.
nlohmann::ordered_json codes_data(const CodeMap& codes);

/// The name of a run's folder, also of "runs/small/" and of ".".
std::string run_name(const std::filesystem::path& run);

/// Size and time of a file's last change as text; "-" if it is not there, or not in `inside`.
std::string file_stamp(const std::filesystem::path& file, const std::filesystem::path& inside);

/// Whether a file or folder lies, its links followed, in `folder`; every one does if that is empty.
bool lies_inside(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace nsvq
