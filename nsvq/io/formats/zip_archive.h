#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/io/files/input_file.h"

struct zip;  // libzip's

namespace nsvq {

/// Whether a file begins as zip files do. Throws UserError naming a file that cannot be read.
bool is_zip_file(const std::filesystem::path& path);

/// A zip file from which members are read. Throws UserError, without the file's name, if it is no
/// zip file, truncated or damaged.
class ZipArchive {
 public:
  /// `file` is the archive, opened as a regular file.
  explicit ZipArchive(const InputFile& file);

  /// Names of the members, in their order.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  /// A member's bytes, of which the checksum is compared. Throws UserError too if there is none of
  /// this name, for more than 1 GiB, and, before memory is taken, for a size that its compressed
  /// bytes cannot expand to.
  std::vector<std::byte> read(const std::string& name) const;

 private:
  struct Discard {
    void operator()(zip* archive) const;
  };
  std::unique_ptr<zip, Discard> archive_;
  uint64_t bytes_ = 0;  ///< of the file
};

}  // namespace nsvq
