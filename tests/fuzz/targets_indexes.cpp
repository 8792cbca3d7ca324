// Files of the index cache, which anyone who may write to its folder may have written.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/data/streams/pipe_index.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/files/index_cache.h"
#include "nsvq/io/files/sha256.h"
#include "nsvq/io/formats/packed.h"
#include "nsvq/io/formats/tar.h"
#include "nsvq/io/formats/tar_index.h"
#include "nsvq/io/formats/tar_writer.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

constexpr auto kArchive = "/archives/a.tar", kCommand = "cat a.tar";

std::string archive_key() { return kArchive + std::string(1, '\0'); }

/// Puts the bytes where the index of a key is looked for.
void put_index(std::span<const std::byte> bytes, const std::string& kind, const std::string& key) {
  const std::filesystem::path file = file_with(bytes, index_name(kind, key));
  ::setenv("NSVQ_INDEX_CACHE", file.parent_path().c_str(), 1);
}

/// An archive of two small files.
const std::string& archive_file() {
  static const auto bytes = written("indexed.tar", [](const std::string& path) {
    TarWriter writer(path);
    for (const char* name : {"a.jpg", "b.jpg"}) writer.add(name, bytes_of("contents"));
    writer.commit();
  });
  static const auto file = file_with(bytes, "indexed.tar");
  return file;
}

/// Entries are read from an archive as large as the index says, as if it were that one.
void read_tar_index(std::span<const std::byte> bytes) {
  static const auto state = TarReader(archive_file()).contents().state;
  put_index(bytes, "tar", archive_key());
  load_tar_index({"/archives/none.tar"});
  auto known = load_tar_index({kArchive}).at(0);
  if (known.state.bytes != state.bytes) throw UserError("refused");
  known.state = state;
  const TarReader reader(archive_file(), known);
  for (const auto& entry : reader.entries()) reader.read(entry);
}

void read_pipe_index(std::span<const std::byte> bytes) {
  put_index(bytes, "pipe", kCommand);
  if (!load_pipe_index(kCommand)) throw UserError("refused");
}

/// What `keep` leaves in the cache, one that is its own: files there are replaced, not overwritten.
std::map<std::string, Bytes> kept(const std::string& name, const std::function<void()>& keep) {
  const TemporaryFolder folder;
  ::setenv("NSVQ_INDEX_CACHE", folder.path().c_str(), 1);
  keep();
  return {{"index", read_file(folder / name)}};
}

std::map<std::string, Bytes> tar_index_seeds() {
  const TarReader reader(archive_file());
  PackedWriter out;
  out.text(archive_key());
  for (const int64_t number : {reader.contents().state.bytes, int64_t{1}, int64_t{2}, int64_t{3}}) {
    out.number(number);
  }
  out.number(std::ssize(reader.entries()));
  for (const auto& entry : reader.entries()) {
    out.number(entry.offset);
    out.number(entry.size);
    out.text(entry.name);
  }
  const auto name = index_name("tar", archive_key());
  return kept(name, [&] { write_index(name, out.bytes()); });
}

std::map<std::string, Bytes> pipe_index_seeds() {
  return kept(index_name("pipe", kCommand), [] {
    save_pipe_index(kCommand, {{"a.jpg", 100, -1}, {"b.png", 200, 3}});
  });
}

/// The hash of all behind it, which follows the first line.
void mend_index(Bytes& bytes) {
  constexpr size_t kDigits = 64;
  const auto line = std::ranges::find(bytes, std::byte{'\n'});
  if (bytes.end() - line < static_cast<std::ptrdiff_t>(kDigits + 1)) return;
  Sha256 hash;
  hash.add(std::span(line + 1 + kDigits, bytes.end()));
  std::ranges::copy(bytes_of(hash.hex()), line + 1);
}

}  // namespace

std::vector<FuzzTarget> index_targets() {
  return {{"tar_index", read_tar_index, tar_index_seeds, mend_index},
          {"pipe_index", read_pipe_index, pipe_index_seeds, mend_index}};
}

}  // namespace nsvq
