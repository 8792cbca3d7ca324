#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "nsvq/data/streams/retry.h"

namespace nsvq {

/// An image in the tar archive that a command writes.
struct PipedImage {
  std::string name;
  int64_t bytes = 0;
  int64_t label = -1;  ///< its class number, of an entry .cls; -1 without one
  bool operator==(const PipedImage&) const = default;
};

/// Runs a command and lists the images in what it writes. Throws RunError, and UserError for a
/// class number that is none.
std::vector<PipedImage> list_piped_images(const std::string& command, const Retries& retries = {},
                                          const std::stop_token& stop = {});

// Such lists are kept in the index cache (nsvq/io/files/index_cache.h), by the command's text.
std::optional<std::vector<PipedImage>> load_pipe_index(const std::string& command);
/// Throws RunError if it cannot be kept.
void save_pipe_index(const std::string& command, const std::vector<PipedImage>& images);

struct IndexOptions {
  bool again = false;  ///< also what is listed already
  int64_t jobs = 4;    ///< commands at a time
  Retries retries = {};
  std::function<void(int64_t done)> on_progress = {};  ///< called by any thread, one at a time
};
/// Lists the images of all commands and keeps the lists. Throws as list_piped_images does; what is
/// kept by then stays.
void index_pipes(const std::vector<std::string>& commands, const IndexOptions& options);

}  // namespace nsvq
