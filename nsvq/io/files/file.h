#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nsvq/core/error.h"

namespace nsvq {

/// The whole regular file; a pipe is an error, not a wait for its writer. Throws UserError naming
/// the path.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

/// All bytes of a file, a pipe or a device: for what a user names in order to have it read, such as
/// /dev/stdin or <(command). Throws UserError naming the path.
std::vector<std::byte> read_stream(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, syncs, and renames: readers see the old file or the
/// new one, never half of it. Missing folders are made. Throws RunError (disk full, no permission).
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text(const std::filesystem::path& path, std::string_view text);

enum class Sync { no, yes };

/// Writes to `temporary`, on the file system of `path`, and renames. With a fixed temporary name
/// killed processes leave at most one file behind. Without a sync a kill still leaves the old file
/// or the new one, but a power cut may leave an empty one. Throws RunError.
void replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary,
                  std::span<const std::byte> bytes, Sync sync);
/// Waits until everything written to the file system of `folder` is on the disk: one call instead
/// of an fsync per file. Throws RunError.
void sync_file_system(const std::filesystem::path& folder);

/// Appends whole lines (JSON lines, CSV) with one write each.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Whether anything has this name, links followed. Throws UserError naming the path where that
/// cannot be told: a name that is too long, a folder without permission.
bool path_exists(const std::filesystem::path& path);

/// The folder for files that can be made again: $XDG_CACHE_HOME/nsvq, else ~/.cache/nsvq; empty if
/// neither variable is set.
std::filesystem::path cache_folder();

/// A file that cannot be written for a reason that its name has no part in.
struct MachineFailure : RunError {
  using RunError::RunError;
};
/// Because the disk or the user's quota is full.
struct NoRoom : MachineFailure {
  using MachineFailure::MachineFailure;
};
/// Whether an errno means a full disk or quota.
inline bool means_no_room(int error) { return error == ENOSPC || error == EDQUOT; }

/// A file descriptor, closed by the destructor; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  /// Gives up ownership: the caller closes it.
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// System calls, repeated if a signal interrupts them. Errors name the path.

/// Throws UserError, or MachineFailure where a disk or mount failed. `error` is an errno.
[[noreturn]] void fail_read(const std::filesystem::path& path, int error);
/// Throws RunError, NoRoom if the disk is full.
[[noreturn]] void fail_write(const std::filesystem::path& path, int error);

/// Leaves errors in errno.
Descriptor open_file(const std::filesystem::path& path, int flags);
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Opens a regular file for reading and fills `info`; waits for no pipe and touches no device.
/// Throws UserError.
Descriptor open_regular(const std::filesystem::path& path, struct stat& info);

/// Writes all of `bytes`. This and the functions below throw RunError naming `path`.
void write_all(const std::filesystem::path& path, int descriptor, std::span<const std::byte> bytes);
/// Waits until the file is on the disk.
void sync_descriptor(const std::filesystem::path& path, int descriptor);
/// sync_descriptor for a file or folder that is not open.
void sync_path(const std::filesystem::path& path);

/// Makes the folder and all missing folders above it.
void make_folders(const std::filesystem::path& folder);
/// make_folders for a folder that the user named; whether it is new. Throws UserError, but NoRoom
/// if the disk is full.
bool make_named_folder(const std::filesystem::path& folder);
/// The folder that contains a file: "." for a bare name.
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace nsvq
