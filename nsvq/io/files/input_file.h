#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "nsvq/io/files/descriptor.h"

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

}  // namespace nsvq
