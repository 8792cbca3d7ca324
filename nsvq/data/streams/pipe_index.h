#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace nsvq {

/// How often a failed command is run again; the pause doubles each time.
struct Retries {
  int64_t times = 3;
  std::chrono::milliseconds first_pause{500};
};

/// Calls `work` until it throws no CommandFailure (piped_tar.h) or a stop is requested. The last
/// failure becomes a RunError.
void retry_command(const Retries& retries, const std::stop_token& stop,
                   const std::function<void()>& work);

/// An image in the tar archive that a command writes.
struct PipedImage {
  std::string name;
  int64_t bytes = 0;
  int64_t label = -1;  ///< class number from its .cls entry; -1 without one
  bool operator==(const PipedImage&) const = default;
};

/// Runs a command and lists the images in what it writes. Throws RunError, and UserError for an
/// invalid class number.
std::vector<PipedImage> list_piped_images(const std::string& command, const Retries& retries = {},
                                          const std::stop_token& stop = {});

/// The JSON file that keeps a command's list: in `index` in the cache folder, named by the sha256
/// of the command's text. Empty if there is no cache folder.
std::filesystem::path pipe_index_file(const std::string& command);
/// A line of the log for whoever sets NSVQ_INDEX_CACHE, by which the lists are not found.
void tell_ignored_variable();
/// nullopt if the list is missing, damaged or invalid.
std::optional<std::vector<PipedImage>> load_pipe_index(const std::string& command);
/// Throws RunError if it cannot be written.
void save_pipe_index(const std::string& command, const std::vector<PipedImage>& images);

struct IndexOptions {
  bool again = false;  ///< also runs commands that are listed already
  int64_t jobs = 4;    ///< commands at a time
  Retries retries = {};
  std::function<void(int64_t done)> on_progress = {};  ///< called by any thread, one at a time
};
/// Lists the images of all commands and saves each list at once. Throws as list_piped_images does.
void index_pipes(const std::vector<std::string>& commands, const IndexOptions& options);

}  // namespace nsvq
