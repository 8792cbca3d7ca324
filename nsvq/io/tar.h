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

/// A tar archive opened for reading entries in any order from any thread (pread). The constructor
/// reads the headers (USTAR, GNU long names, PAX path and size records) and throws UserError,
/// naming the file, for a truncated or corrupt archive. An archive compressed by gzip or Zstandard
/// is decompressed once, to a temporary file. Of very many archives only some stay open; the others
/// are opened for each read.
class TarReader {
 public:
  explicit TarReader(std::filesystem::path path);
  ~TarReader();
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) = delete;

  const std::vector<TarEntry>& entries() const { return entries_; }
  std::vector<std::byte> read(const TarEntry& entry) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;             // -1 where the archive is opened for each read
  int64_t size_ = 0, changed_ = 0;  // of the file when it was scanned: bytes, time in nanoseconds
  std::vector<TarEntry> entries_;
};

}  // namespace nsvq
