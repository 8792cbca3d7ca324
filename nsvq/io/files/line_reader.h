#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "nsvq/io/files/input_file.h"

namespace nsvq {

/// The lines of a regular file, with little of it in memory at a time. Throws UserError naming it.
class LineReader {
 public:
  /// Of a line longer than `longest` bytes the first ones are given and the others passed over.
  explicit LineReader(const std::filesystem::path& path, size_t longest = size_t{1} << 20)
      : file_(path), longest_(longest) {}

  /// Without the line's end; empty after the last.
  std::optional<std::string> next();

 private:
  bool fill();

  InputFile file_;
  size_t longest_;
  uint64_t offset_ = 0;  // of the first byte after `piece_`
  std::string piece_;
  size_t at_ = 0;  // in `piece_`
};

}  // namespace nsvq
