#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "nsvq/io/file.h"

namespace nsvq {

/// A file inside a zip file.
struct ZipEntry {
  std::string name;
  uint16_t method = 0;  ///< 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0;  ///< bytes in the zip file, and unpacked
  uint64_t header = 0;            ///< where its local header begins
};

/// Reads zip files below 4 GiB, as Python's zipfile writes them. Errors are UserErrors without the
/// file's name.
std::vector<ZipEntry> list_zip(const InputFile& file);
/// Unpacked, its checksum found right.
std::vector<std::byte> read_zip_entry(const InputFile& file, const ZipEntry& entry);

/// Writes files into a zip file, not compressed, with the same bytes every time. Atomic.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}
  /// The parts one after the other. Throws RunError beyond 4 GiB.
  void add(const std::string& name, const std::vector<std::span<const std::byte>>& parts);
  void commit();

 private:
  void write(const std::string& bytes);

  AtomicFile file_;
  uint64_t position_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace nsvq
