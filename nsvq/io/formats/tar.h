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
  int64_t offset = 0;  ///< position of its first byte in the archive
  int64_t size = 0;
};

/// A tar archive opened for reading entries in any order from any thread (pread). The constructor
/// reads the headers (USTAR, GNU long names, PAX path and size records) and throws UserError,
/// naming the file, for a truncated or corrupt archive. An archive compressed by gzip or Zstandard
/// is decompressed once, to a temporary file. Only some archives of very many stay open; the rest
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
  int descriptor_ = -1;  // -1: the archive is opened for each read
  int64_t bytes_ = 0;    // size and time of modification, in ns, when the headers were read
  int64_t changed_ = 0;
  std::vector<TarEntry> entries_;
};

}  // namespace nsvq
