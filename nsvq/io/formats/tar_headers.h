#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/io/formats/tar.h"
#include "nsvq/io/formats/tar_block.h"

namespace nsvq {

/// Where a scanner finds the bytes of an archive. It asks for offsets that only grow.
class TarInput {
 public:
  virtual ~TarInput() = default;
  /// Fewer bytes than `size` only where there are no more.
  virtual size_t read(int64_t offset, char* to, size_t size) = 0;
};

/// What the entries before a file say about it.
struct TarExtension {
  std::optional<std::string> name, link;
  std::optional<int64_t> size;
};

/// A hard link: another name of a file that the archive holds before it.
struct TarLink {
  size_t place;  ///< number of files before it
  std::string name, target;
};

/// Walks the headers of an archive (USTAR, GNU long names, PAX path and size records). Throws
/// UserError calling the archive `name` if it is truncated or corrupt.
class TarScanner {
 public:
  /// Of an archive whose size is not known, the two empty blocks at its end tell that it is whole.
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

  TarScanner(std::string name, TarInput& input, int64_t bytes)
      : name_(std::move(name)), input_(input), bytes_(bytes) {}

  /// The next regular file; nothing at the end.
  std::optional<TarEntry> next();
  /// Where the next header is, or at the end the first empty block.
  int64_t offset() const { return offset_; }
  /// Links met so far; they are not among the files.
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

/// All regular files in an open archive of `file_size` bytes, hard links among them. Symbolic
/// links, whose files need not be in the archive, are counted in a line of the log.
std::vector<TarEntry> read_tar_headers(const std::string& path, int descriptor, int64_t file_size);

}  // namespace nsvq
