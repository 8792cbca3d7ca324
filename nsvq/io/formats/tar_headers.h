#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/io/formats/tar.h"

namespace nsvq {

/// A tar is a sequence of blocks.
inline constexpr size_t kTarBlock = 512;
using TarBlock = std::array<char, kTarBlock>;

/// Source of an archive's bytes for a scanner, which asks for rising offsets only.
class TarInput {
 public:
  virtual ~TarInput() = default;
  /// Returns fewer bytes than `size` only at the end.
  virtual size_t read(int64_t offset, char* to, size_t size) = 0;
};

/// Attributes of a file that metadata entries before it set.
struct TarExtension {
  std::optional<std::string> name, link;
  std::optional<int64_t> size;
};

/// A hard link: another name of a file that the archive holds before it.
struct TarLink {
  size_t files_before;
  std::string name, target;
};

/// Walks the headers of an archive (USTAR, GNU long names, PAX path and size records). Throws
/// UserError calling the archive `name` if it is truncated or corrupt.
class TarScanner {
 public:
  /// Size of an archive that is not known: the empty blocks at its end then show that it is whole.
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  TarScanner(std::string name, TarInput& input, int64_t bytes)
      : name_(std::move(name)), input_(input), bytes_(bytes) {}

  /// The next regular file; nullopt at the end.
  std::optional<TarEntry> next();
  /// Offset of the next header, or at the end of the first empty block.
  int64_t offset() const { return offset_; }
  /// Links met so far; `next` does not return them.
  const std::vector<TarLink>& hard_links() const { return hard_links_; }
  int64_t symbolic_links() const { return symbolic_links_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read(int64_t offset, char* to, int64_t size, const char* what) const;
  void check_header() const;
  int64_t header_size() const;
  void advance(int64_t size);
  void read_metadata(char type);
  std::optional<TarEntry> read_entry(char type);

  std::string name_;
  TarInput& input_;
  int64_t bytes_;
  int64_t offset_ = 0;
  TarBlock block_;
  TarExtension next_;
  size_t files_ = 0;
  std::vector<TarLink> hard_links_;
  int64_t symbolic_links_ = 0;
};

/// All regular files and hard links in an open archive of `file_size` bytes. Symbolic links, whose
/// files need not be in the archive, are counted in a line of the log.
std::vector<TarEntry> read_tar_headers(const std::string& path, int descriptor, int64_t file_size);

}  // namespace nsvq
