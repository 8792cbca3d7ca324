#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "nsvq/io/files/atomic_file.h"

namespace nsvq {

/// Writes a tar archive (USTAR, with PAX records for names that USTAR cannot store), which appears
/// with `commit`. Equal entries give equal bytes: owner and time are 0. Throws RunError.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& path) : file_(path) {}

  /// Adds a regular file. Throws UserError for a name that is empty or contains a zero byte.
  void add(std::string_view name, std::span<const std::byte> contents);
  void commit();

 private:
  void add_entry(std::string_view prefix, std::string_view name, char type,
                 std::span<const std::byte> contents);

  AtomicFile file_;
};

}  // namespace nsvq
