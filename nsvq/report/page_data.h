#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/formats/json.h"
#include "nsvq/runs/log.h"

namespace nsvq {

/// A codebook as the page shows it: a map of its codes, and which of them stand for what in the
/// run's sample images.
struct CodeMap {
  std::string model;                         ///< name of the checkpoint
  int64_t codes = 0;                         ///< in the codebook
  std::vector<int64_t> code;                 ///< those on the map: all of them, or the most used
  std::vector<float> x, y;                   ///< coordinates in the two main directions, 0 to 1
  double x_share = 0, y_share = 0;           ///< share of the codes' variance in each direction
  std::string no_map;                        ///< why there is no map, if so
  int64_t epoch = -1;                        ///< epoch of the sample images that have these tokens
  int64_t grid_height = 0, grid_width = 0;   ///< tokens of an image
  std::vector<std::vector<int64_t>> tokens;  ///< for each image, row by row
  std::string no_tokens;                     ///< why there are none, if so
};

/// The codebook of a run's newest model and the tokens of the images in its newest sample picture,
/// both computed on the CPU. What cannot be had is said in the map. Throws UserError if there is no
/// model that can be opened, or none with tokens.
CodeMap map_codes(const std::filesystem::path& run);

/// Coordinates of `vectors` [K, d] in the two directions of largest variance, [K, 2], and the
/// shares of the variance in them, [2]. A direction points to where its largest component is
/// positive.
struct MainDirections {
  torch::Tensor coordinates, shares;
};
MainDirections main_directions(const torch::Tensor& vectors);

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
  size_t points = 2000;              ///< of a curve
  size_t pictures = 24;              ///< of a run
  size_t picture_bytes = 24u << 20;  ///< of a run
  bool fetched_pictures = false;     ///< the page fetches them all from a server (page/live.js)
};

/// Limits for a page of so many runs that it stays a few tens of MB.
PageLimits limits_for(size_t runs);

enum class PageKind { whole, live };  ///< with its runs inside, or one that fetches them

/// A page's data without runs: `title`, `live`, the order of the curves' `topics`, `runs`.
Json empty_page(const std::string& title, PageKind kind);

/// What the page shows of a run, from what its folder holds (config.yaml, metrics.jsonl,
/// samples/): how it went (nsvq/runs/verdict.h), results, curves thinned to the limits, phases,
/// alarms, settings, pictures. What is missing or cannot be read is named in `notices`.
Json page_data(const PageRun& run, const PageLimits& limits);

/// What page_data reads from the log (page_log.cpp): facts, results, alarms, phases, curves of at
/// most `points` points, histograms of train.check.
Json log_data(const RunLog& log, size_t points);

/// What page_data shows of a codebook, for a server that makes it when it is asked for.
Json codes_data(const CodeMap& codes);

/// The name of a run's folder, also of "runs/small/" and of ".".
std::string run_name(const std::filesystem::path& run);

/// Size and time of a file's last change as text; "-" if there is no such file.
std::string file_stamp(const std::filesystem::path& file);

}  // namespace nsvq
