#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nsvq/io/files/lock.h"

namespace nsvq {

/// Whether a ResumableFolder uses this name for its record.
bool is_record_name(std::string_view name);

/// Throws UserError unless the folder is missing, empty, or was filled (completely or in part) by a
/// command with a ResumableFolder.
void require_fillable(const std::filesystem::path& folder);

/// A folder that a command fills with many files in a fixed order, and that the same command
/// completes after it was stopped or killed.
///
/// The command works through positions 0, 1, 2, ... of its input, each of which gives a file or is
/// left out. A file appears by a rename, so that a killed process leaves no half of one. Single
/// files are not synced: now and then the file system is, and the position reached is recorded in
/// `.nsvq-incomplete.json`. Files beyond it, which a power cut may leave empty, are written again.
/// The record of a complete folder is `.nsvq-complete.json`: run again, the command finds nothing
/// left to do, even if it was killed right after its last file.
class ResumableFolder {
 public:
  /// All that the files depend on, by name, in ASCII.
  using Settings = std::map<std::string, std::string>;

  /// Creates the folder, or opens one that is empty or was begun or completed with equal settings.
  /// Throws UserError for all other folders, and if another process fills it. The position is
  /// recorded after `files_per_record` files or ten seconds.
  ResumableFolder(std::filesystem::path folder, Settings settings, int64_t files_per_record = 1024);
  /// Records the position reached. Removes the folder if it was created here and nothing was
  /// written.
  ~ResumableFolder();
  ResumableFolder(const ResumableFolder&) = delete;
  ResumableFolder& operator=(const ResumableFolder&) = delete;

  /// Number of positions whose files are on the disk; the command begins after them.
  int64_t done() const { return done_; }
  /// Positions before done() that gave no file.
  const std::vector<int64_t>& left_out() const { return left_out_; }
  bool complete() const { return complete_; }

  /// What the command will write, to check the record of an earlier run against it.
  struct Plan {
    int64_t positions = 0;                                ///< in its input
    int64_t step = 1;                                     ///< positions finished at a time
    int64_t files = std::numeric_limits<int64_t>::max();  ///< maximal number of files
    bool leaves_out = false;                              ///< whether a position may give no file
  };
  /// Throws UserError if the record contradicts the plan, or if a file before done() is missing.
  void require_done(const Plan& plan,
                    const std::function<std::string(int64_t position)>& name_of) const;

  /// Returns to position `done`, since `image`, left out so far, can be read now. The folder is
  /// then incomplete.
  void go_back(int64_t done, const std::string& image);

  /// `name` may contain folders. Throws RunError, and UserError if one of them is a link.
  void write(const std::string& name, std::span<const std::byte> bytes);
  /// Declares all positions before `done` finished; `left_out` are those since the last call that
  /// gave no file.
  void advance(int64_t done, const std::vector<int64_t>& left_out = {});
  /// Syncs and marks the folder as complete; logs a line if it was complete before.
  void finish();

 private:
  const std::filesystem::path& record() const { return complete_ ? complete_record_ : record_; }
  void load_record();
  void write_record();

  std::filesystem::path folder_, record_, complete_record_, temporary_;
  Settings settings_;
  int64_t files_per_record_;
  bool made_here_ = false, begun_before_ = false, complete_ = false;
  std::optional<FolderLock> lock_;
  int64_t done_ = 0;
  std::vector<int64_t> left_out_;
  int64_t files_since_record_ = 0;
  std::chrono::steady_clock::time_point recorded_;
};

/// The settings by which a folder was begun or completed; nullopt without a record that can be
/// read.
std::optional<ResumableFolder::Settings> recorded_settings(const std::filesystem::path& folder);

}  // namespace nsvq
