#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "nsvq/io/files/input_file.h"

struct zip;       // libzip's
struct zip_file;  // libzip's

namespace nsvq {

/// Whether a file begins as zip files do. Throws UserError naming a file that cannot be read.
bool is_zip_file(const std::filesystem::path& path);

inline constexpr uint64_t kMostMemberBytes = uint64_t{1} << 30;  // a small file can claim any size

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
  /// this name, for more than `most` bytes, and, before memory is taken, for a size that its
  /// compressed bytes cannot expand to.
  std::vector<std::byte> read(const std::string& name, uint64_t most = kMostMemberBytes) const;

 private:
  friend class StoredMember;

  struct Discard {
    void operator()(zip* archive) const;
  };
  std::unique_ptr<zip, Discard> archive_;
  uint64_t bytes_ = 0;  ///< of the file
};

/// A member that lies uncompressed in its archive, of any size, read in pieces. Thread-safe. Its
/// checksum, which is that of the whole, is not compared.
class StoredMember {
 public:
  /// Throws UserError, without the file's name, if there is none of this name or it is compressed.
  StoredMember(ZipArchive archive, const std::string& name);

  uint64_t size() const { return size_; }
  /// Fills `bytes` from `offset` on. Throws UserError where the member ends before.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  struct Close {
    void operator()(zip_file* member) const;
  };
  ZipArchive archive_;
  mutable std::mutex mutex_;  // guards the position in member_
  std::unique_ptr<zip_file, Close> member_;
  uint64_t size_ = 0;
};

}  // namespace nsvq
