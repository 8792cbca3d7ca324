#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "nsvq/io/files/file.h"

namespace nsvq {

/// A log that grows by whole records. Symbolic links are refused: a folder from elsewhere may
/// contain a link to any file. A file with several hard links (as `cp -al` makes) is copied before
/// it is changed, so that the remaining links keep its old contents. Throws RunError.
class AppendFile {
 public:
  /// Opens the file, or creates it.
  explicit AppendFile(std::filesystem::path path);

  /// Writes all of `bytes` or, if that fails (disk full), leaves the file as it was.
  void append(std::string_view bytes);
  /// Cuts the file to its first `length` bytes.
  void cut(uint64_t length);

  /// Waits until the file is on the disk.
  void sync();

  const std::filesystem::path& path() const { return path_; }
  uint64_t length() const;

 private:
  void open();
  void break_hard_links();

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace nsvq
