#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nsvq {

/// One regular file inside a tar archive.
struct TarEntry {
  std::string name;
  int64_t offset = 0;  ///< of its first byte in the archive
  int64_t size = 0;
};

/// What tells one state of a file from another, without reading it. Times are in nanoseconds.
struct FileState {
  int64_t bytes = -1;
  int64_t changed = 0;         ///< the contents (mtime)
  int64_t status_changed = 0;  ///< those, or anything about the file (ctime)
  int64_t inode = 0;
  bool operator==(const FileState&) const = default;
};

/// The files in an archive that is in a state.
struct TarContents {
  FileState state;
  std::vector<TarEntry> entries;
};

/// A tar archive opened for reading entries in any order from any thread (pread). The constructor
/// reads the headers (USTAR, GNU long names, PAX path and size records) and throws UserError,
/// naming the file, for a truncated or corrupt archive. An archive compressed by gzip or Zstandard
/// is decompressed once, to a temporary file. Of very many archives only some stay open; the others
/// are opened for each read.
class TarReader {
 public:
  /// An archive that is in the state of `known`, and not compressed, has those contents: its
  /// headers are not read.
  explicit TarReader(std::filesystem::path path, TarContents known = {});
  ~TarReader();
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) = delete;

  const std::vector<TarEntry>& entries() const { return contents_.entries; }
  const TarContents& contents() const { return contents_; }
  /// Whether the headers were read.
  bool scanned() const { return scanned_; }
  /// Whether the contents will do for the next time. Those of a compressed archive are known once
  /// it is decompressed; a file changed a moment ago may change again within the same tick of its
  /// clock.
  bool worth_keeping() const { return !compressed_ && !just_changed_; }
  std::vector<std::byte> read(const TarEntry& entry) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1 where the archive is opened for each read
  TarContents contents_;
  bool scanned_ = true, compressed_ = false, just_changed_ = false;
};

}  // namespace nsvq
