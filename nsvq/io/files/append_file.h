#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "nsvq/io/files/descriptor.h"

namespace nsvq {

/// A log that grows by whole records. A link is not followed: a folder that came from elsewhere
/// may hold one to any file. A file that has other names (hard links, as `cp -al` makes) is copied
/// before it is changed, and stays under those names as it was. Throws RunError.
class AppendFile {
 public:
  /// Opens the file, or makes it.
  explicit AppendFile(std::filesystem::path path);

  /// Writes all of `bytes` or, if that fails (disk full), leaves the file as it was.
  void append(std::string_view bytes);
  /// Drops what is behind the first `length` bytes.
  void cut(uint64_t length);

  /// Waits until all of it is on the disk.
  void sync();

  const std::filesystem::path& path() const { return path_; }
  uint64_t length() const;

 private:
  void open();
  void keep_other_names();

  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace nsvq
