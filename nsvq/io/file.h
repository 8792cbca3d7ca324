#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nsvq {

/// The whole file. Throws UserError naming the path.
std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

/// Writes to a temporary name beside `path`, syncs, and renames: readers see the old file or the
/// new one, never half of it. Missing folders are made. Throws RunError (disk full, no permission).
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text(const std::filesystem::path& path, std::string_view text);

enum class Sync { no, yes };

/// Writes to `temporary`, on the file system of `path`, and renames. A temporary name that is
/// always the same leaves at most one file behind when processes are killed. Without a sync a kill
/// still leaves the old file or the new one, but a power cut may leave an empty one. Throws
/// RunError.
void replace_file(const std::filesystem::path& path, const std::filesystem::path& temporary,
                  std::span<const std::byte> bytes, Sync sync);
/// Waits until all that was written to the file system of `folder` is on the disk: one call in
/// place of an fsync for each of many files. Throws RunError.
void sync_file_system(const std::filesystem::path& folder);

/// Appends whole lines (JSON lines, CSV) with one write each.
void append_line(const std::filesystem::path& path, std::string_view line);

/// A regular file open for reading at any offset, from any thread. Throws UserError.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }
  /// Fills `bytes` from `offset` on; a file that ends before is an error.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// write_file in pieces: `write` them, then `commit` syncs and renames. Without `commit` nothing
/// appears. A device or a pipe (/dev/null) is written directly.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::filesystem::path final_, temporary_;
  int descriptor_ = -1;
};

/// A folder that appears whole: fill `path()`, then `commit()` syncs every file in it and renames
/// the folder to its final name (replacing an older one). Without `commit` it is removed again.
/// Temporary names are `.NAME.tmp-PID-N`; one left by a killed process can be ignored or removed.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path final_path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_, temporary_;
  bool committed_ = false;
};

}  // namespace nsvq
