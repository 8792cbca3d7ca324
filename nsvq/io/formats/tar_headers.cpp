#include "nsvq/io/formats/tar_headers.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr auto kBlockBytes = static_cast<int64_t>(kTarBlock);
/// Longer names and PAX records are refused as corrupt.
constexpr int64_t kMaxMetadata = 1 << 20;

std::string_view field(const TarBlock& block, size_t offset, size_t size) {
  return {block.data() + offset, size};
}

std::string_view text(std::string_view bytes) { return bytes.substr(0, bytes.find('\0')); }

/// Octal digits between blanks, or (GNU, for 8 GB and more) a big-endian number after a byte 0x80.
std::optional<int64_t> number(std::string_view bytes) {
  uint64_t value = 0;
  if (static_cast<unsigned char>(bytes[0]) == 0x80) {
    for (const char c : bytes.substr(1)) {
      if (value >> 54) return {};
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return static_cast<int64_t>(value);
  }
  size_t i = bytes.find_first_not_of(' ');
  for (; i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
    value = value << 3 | static_cast<uint64_t>(bytes[i] - '0');
  if (i < bytes.size() && bytes[i] != ' ' && bytes[i] != '\0') return {};
  return static_cast<int64_t>(value);
}

bool is_zero(const TarBlock& block) {
  return std::all_of(block.begin(), block.end(), [](char c) { return c == 0; });
}

/// The sum of the bytes with the checksum itself as blanks; some old programs summed signed bytes.
bool checksum_holds(const TarBlock& block) {
  int64_t plain = 0, as_signed = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    plain += static_cast<unsigned char>(c);
    as_signed += static_cast<signed char>(c);
  }
  const auto stored = number(field(block, 148, 8));
  return stored && (*stored == plain || *stored == as_signed);
}

/// The name in a header. Only POSIX headers have a prefix; GNU tar stores other fields there.
std::string header_name(const TarBlock& block) {
  std::string name(text(field(block, 0, 100)));
  const std::string_view prefix = text(field(block, 345, 155));
  if (field(block, 257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
    return std::string(prefix) + '/' + name;
  return name;
}

/// PAX records are lines "<length of line> <key>=<value>\n". False where they are malformed.
bool parse_pax(std::string_view records, TarExtension& out) {
  while (!records.empty()) {
    const size_t space = records.find(' ');
    if (space == std::string_view::npos) return false;
    const auto length = parse_decimal(records.substr(0, space));
    if (!length || static_cast<size_t>(*length) > records.size()) return false;
    if (static_cast<size_t>(*length) < space + 3 || records[*length - 1] != '\n') return false;
    const std::string_view record = records.substr(space + 1, *length - space - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") out.name = std::string(value);
    if (key == "linkpath") out.link = std::string(value);
    if (key == "size" && !(out.size = parse_decimal(value))) return false;
    if (key.starts_with("GNU.sparse.")) return false;
    records.remove_prefix(*length);
  }
  return true;
}

class FileInput : public TarInput {
 public:
  FileInput(const std::string& path, int descriptor) : path_(path), descriptor_(descriptor) {}

  size_t read(int64_t offset, char* to, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t got = retry_interrupted([&] {
        return ::pread(descriptor_, to + done, size - done, offset + static_cast<int64_t>(done));
      });
      if (got < 0) {
        throw UserError("{}: cannot read the archive at offset {} ({})", path_, offset,
                        std::strerror(errno));
      }
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }

 private:
  const std::string& path_;
  int descriptor_;
};

}  // namespace

void TarScanner::fail(const std::string& what) const {
  throw UserError("{}: {} at offset {}; make or download the archive again", name_, what, offset_);
}

void TarScanner::read(int64_t offset, char* to, int64_t size, const char* what) const {
  if (size <= bytes_ - offset &&
      input_.read(offset, to, static_cast<size_t>(size)) == static_cast<size_t>(size))
    return;
  fail(fmt::format("truncated tar archive (incomplete {})", what));
}

std::optional<TarEntry> TarScanner::next() {
  while (offset_ < bytes_) {
    read(offset_, block_.data(), kBlockBytes, "header");
    if (is_zero(block_)) break;
    check_header();
    const char type = block_[156];
    if (type == 'L' || type == 'x' || type == 'g' || type == 'K') {
      read_metadata(type);
    } else if (auto entry = read_entry(type)) {
      return entry;
    }
  }
  if (next_.name || next_.size) fail("truncated tar archive (name without a file)");
  return std::nullopt;
}

void TarScanner::check_header() const {
  if (checksum_holds(block_)) return;
  if (offset_ > 0) fail("corrupt tar header (wrong checksum)");
  throw UserError("{}: not a tar archive (wrong checksum at offset 0)", name_);
}

int64_t TarScanner::header_size() const {
  const auto size = number(field(block_, 124, 12));
  if (!size || *size < 0) fail("corrupt tar header (size is not a number)");
  return *size;
}

void TarScanner::advance(int64_t size) {
  // Contents fill whole blocks; the padding of the last file may not be cut off either.
  const int64_t left = bytes_ - offset_ - kBlockBytes;
  if (size > left || (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes > left)
    fail(fmt::format("truncated tar archive (entry of {} bytes goes beyond the end)", size));
  offset_ += kBlockBytes + (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

void TarScanner::read_metadata(char type) {
  const int64_t size = header_size();
  if (size > kMaxMetadata)
    fail(fmt::format("corrupt tar header (name or attributes of {} bytes)", size));
  std::string data(static_cast<size_t>(size), '\0');
  read(offset_ + kBlockBytes, data.data(), size, "name or attributes");
  TarExtension global;  // set for the whole archive; a path or size makes no sense there
  if (type == 'L') next_.name = std::string(text(data));
  if (type == 'K') next_.link = std::string(text(data));
  if (type == 'x' && !parse_pax(data, next_)) fail("PAX attributes that cannot be read");
  if (type == 'g' && !parse_pax(data, global)) fail("PAX attributes that cannot be read");
  advance(size);
}

/// nullopt for a link, a device or a folder.
std::optional<TarEntry> TarScanner::read_entry(char type) {
  if (type == 'S') fail("sparse file, which is not supported,");
  // Links, devices and folders ('1' to '6') have no contents, whatever their size field says.
  const bool has_contents = type < '1' || type > '6';
  const int64_t size = has_contents ? next_.size.value_or(header_size()) : 0;
  std::string name = next_.name ? std::move(*next_.name) : header_name(block_);
  std::string target =
      next_.link ? std::move(*next_.link) : std::string(text(field(block_, 157, 100)));
  const int64_t contents = offset_ + kBlockBytes;
  next_ = {};
  advance(size);
  if (type == '1') hard_links_.push_back({files_, name, std::move(target)});
  if (type == '2') ++symbolic_links_;
  const bool is_file = type == '0' || type == '7' || (type == '\0' && !name.ends_with('/'));
  if (!is_file) return std::nullopt;
  ++files_;
  return TarEntry{std::move(name), contents, size};
}

namespace {

/// Adds hard links as files with the contents of their targets. A link whose target is not before
/// it is left out.
std::vector<TarEntry> with_hard_links(std::vector<TarEntry> entries,
                                      const std::vector<TarLink>& links) {
  if (links.empty()) return entries;
  std::unordered_map<std::string, std::pair<int64_t, int64_t>> contents;
  std::vector<TarEntry> all;
  auto link = links.begin();
  for (size_t i = 0; i <= entries.size(); ++i) {
    for (; link != links.end() && link->files_before == i; ++link) {
      const auto found = contents.find(link->target);
      if (found == contents.end()) continue;
      all.push_back({link->name, found->second.first, found->second.second});
      contents[link->name] = found->second;
    }
    if (i == entries.size()) break;
    contents[entries[i].name] = {entries[i].offset, entries[i].size};
    all.push_back(std::move(entries[i]));
  }
  return all;
}

}  // namespace

std::vector<TarEntry> read_tar_headers(const std::string& path, int descriptor, int64_t file_size) {
  FileInput input(path, descriptor);
  TarScanner scanner(path, input, file_size);
  std::vector<TarEntry> entries;
  while (auto entry = scanner.next()) entries.push_back(std::move(*entry));
  if (const auto links = scanner.symbolic_links(); links > 0) {
    log("{}: skipped {} symbolic link{}; tar -h stores the files themselves", path, links,
        links == 1 ? "" : "s");
  }
  const auto files = entries.size(), hard = scanner.hard_links().size();
  auto all = with_hard_links(std::move(entries), scanner.hard_links());
  if (const auto lost = files + hard - all.size(); lost > 0) {
    log("{}: skipped {} to files that do not come earlier in the archive", path,
        count_of(lost, "hard link"));
  }
  return all;
}

}  // namespace nsvq
