#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "nsvq/io/files/file.h"

namespace nsvq {

/// A regular file open for reading at any offset, from any thread. Throws UserError.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }
  /// Fills `bytes` from `offset` on; a file that ends before is an error.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  uint64_t size_ = 0;
};

/// The lines of a regular file, read in pieces. Throws UserError naming it.
class LineReader {
 public:
  /// A line longer than `longest` bytes is cut to its first `longest`.
  explicit LineReader(const std::filesystem::path& path, size_t longest = size_t{1} << 20)
      : file_(path), longest_(longest) {}

  /// The next line without its line break; nullopt after the last.
  std::optional<std::string> next();

 private:
  bool fill();

  InputFile file_;
  size_t longest_;
  uint64_t offset_ = 0;  // position in the file after `piece_`
  std::string piece_;
  size_t at_ = 0;  // position in `piece_`
};

}  // namespace nsvq
