#include "nsvq/io/formats/tar_index.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nsvq/io/files/index_cache.h"
#include "nsvq/io/formats/packed.h"
#include "nsvq/io/formats/tar_block.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// The set's absolute paths, each followed by a zero byte.
std::string key_of(const std::vector<fs::path>& archives) {
  std::string key;
  for (const auto& path : archives) {
    key += fs::absolute(path).lexically_normal().string();
    key += '\0';
  }
  return key;
}

void pack(const TarContents& contents, PackedWriter& out) {
  const auto& state = contents.state;
  for (const int64_t number : {state.bytes, state.changed, state.status_changed, state.inode}) {
    out.number(number);
  }
  out.number(std::ssize(contents.entries));
  for (const auto& entry : contents.entries) {
    out.number(entry.offset);
    out.number(entry.size);
    out.text(entry.name);
  }
}

/// Whether an entry lies within an archive of so many bytes, as it does if it came from a scan.
bool lies_within(const TarEntry& entry, int64_t bytes) {
  return entry.offset >= static_cast<int64_t>(kTarBlock) && entry.size >= 0 &&
         entry.offset <= bytes && entry.size <= bytes - entry.offset;
}

std::optional<TarContents> unpack(PackedReader& in) {
  TarContents contents;
  auto& state = contents.state;
  for (int64_t* number : {&state.bytes, &state.changed, &state.status_changed, &state.inode}) {
    *number = in.number();
  }
  constexpr int64_t least = 24;  // two numbers and the length of a name
  const int64_t count = in.count(least);
  contents.entries.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count && in.good(); ++i) {
    TarEntry entry;
    entry.offset = in.number();
    entry.size = in.number();
    entry.name = in.text();
    if (!lies_within(entry, state.bytes)) return std::nullopt;
    contents.entries.push_back(std::move(entry));
  }
  if (!in.good()) return std::nullopt;
  return contents;
}

}  // namespace

std::vector<TarContents> load_tar_index(const std::vector<fs::path>& archives) {
  std::vector<TarContents> nothing(archives.size());
  const auto key = key_of(archives);
  const auto bytes = read_index(index_name("tar", key));
  if (!bytes) return nothing;
  PackedReader in(*bytes);
  if (in.text() != key) return nothing;
  std::vector<TarContents> known;
  known.reserve(archives.size());
  for (size_t i = 0; i < archives.size(); ++i) {
    auto contents = unpack(in);
    if (!contents) return nothing;
    known.push_back(std::move(*contents));
  }
  return in.complete() ? known : nothing;
}

void save_tar_index(const std::vector<fs::path>& archives, const std::vector<TarReader>& readers) {
  const auto is_new = [](const TarReader& reader) {
    return reader.scanned() && reader.worth_keeping();
  };
  if (index_cache_folder().empty() || std::none_of(readers.begin(), readers.end(), is_new)) return;
  const auto key = key_of(archives);
  PackedWriter out;
  out.text(key);
  for (const auto& reader : readers) {
    pack(reader.worth_keeping() ? reader.contents() : TarContents{}, out);
  }
  write_index(index_name("tar", key), out.bytes());
}

}  // namespace nsvq
