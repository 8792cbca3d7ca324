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

/// Whether such a folder needs this name for its record.
bool is_record_name(std::string_view name);

/// Throws UserError for anything but a folder that is new, empty or filled by a command, wholly or
/// in part.
void require_fillable(const std::filesystem::path& folder);

/// A folder that a command fills with many files in a fixed order, and that the same command
/// completes after it was stopped or killed.
///
/// The command works through positions 0, 1, 2, ... of its input, each of which gives a file or is
/// left out. A file appears by a rename, so that a killed process leaves no half of one. No file is
/// synced by itself: now and then the whole file system is, and the position reached is recorded in
/// `.nsvq-incomplete.json`. Files beyond it, which a power cut may leave empty, are written again.
/// The record of a complete folder is `.nsvq-complete.json`: given again, the command finds that
/// there is nothing left to do, also if it was killed right after its last file.
class ResumableFolder {
 public:
  /// What the files depend on, by name, in ASCII.
  using Settings = std::map<std::string, std::string>;

  /// Makes the folder, or opens one that is empty or was begun or made with equal settings. Throws
  /// UserError for any other, and for one that another process fills. The position is recorded
  /// after `files_per_record` files or ten seconds.
  ResumableFolder(std::filesystem::path folder, Settings settings, int64_t files_per_record = 1024);
  /// Records the position that was reached. A folder in which nothing was written is removed if it
  /// was made here.
  ~ResumableFolder();
  ResumableFolder(const ResumableFolder&) = delete;
  ResumableFolder& operator=(const ResumableFolder&) = delete;

  /// Positions to begin after: their files are on the disk.
  int64_t done() const { return done_; }
  /// Those of the positions done that gave no file.
  const std::vector<int64_t>& left_out() const { return left_out_; }
  bool complete() const { return complete_; }

  /// What the command puts into the folder, for a check of what an earlier run has left.
  struct Plan {
    int64_t positions = 0;                                ///< of its input
    int64_t step = 1;                                     ///< positions finished at a time
    int64_t files = std::numeric_limits<int64_t>::max();  ///< so many at most are written
    bool leaves_out = false;                              ///< whether a position may give no file
  };
  /// Throws UserError if the record cannot be of that plan, or if a file of the positions done is
  /// not there.
  void require_done(const Plan& plan,
                    const std::function<std::string(int64_t position)>& name_of) const;

  /// Goes back to `done`, since the record leaves out `image`, which can be read; a folder that was
  /// complete no longer is.
  void go_back(int64_t done, const std::string& image);

  /// `name` may hold folders. Throws RunError, UserError if one of them is a link.
  void write(const std::string& name, std::span<const std::byte> bytes);
  /// The files of all positions before `done` have been written, but for those left out since the
  /// last call.
  void advance(int64_t done, const std::vector<int64_t>& left_out = {});
  /// Syncs and records that all is done; says so where it was before.
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

}  // namespace nsvq
