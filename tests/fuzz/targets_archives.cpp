#include <fmt/format.h>
#include <sys/resource.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/npz_source.h"
#include "nsvq/io/formats/npz.h"
#include "nsvq/io/formats/tar.h"
#include "nsvq/io/formats/tar_headers.h"
#include "nsvq/io/formats/tar_writer.h"
#include "tests/fuzz/byte_edits.h"
#include "tests/fuzz/target.h"
#include "tests/npz_images.h"

namespace nsvq {

namespace {

void read_entries(const TarReader& reader) {
  for (const auto& entry : reader.entries()) reader.read(entry);
}

/// Reads entries after another process has changed the archive.
void read_changed(const TarReader& reader) {
  try {
    read_entries(reader);
  } catch (const RunError&) {
  }
}

/// Reads every entry, and once more after the archive has been cut.
void read_tar(std::span<const std::byte> bytes) {
  const TarReader reader(file_with(bytes, "input.tar"));
  read_entries(reader);
  file_with(bytes.first(bytes.size() / 2), "input.tar");
  read_changed(reader);
}

/// Lowers the limit on open files while it lives.
class FewOpenFiles {
 public:
  explicit FewOpenFiles(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{std::min(most, before_.rlim_max), before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewOpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewOpenFiles(const FewOpenFiles&) = delete;
  FewOpenFiles& operator=(const FewOpenFiles&) = delete;

 private:
  rlimit before_{};
};

/// Reads one of so many archives that it is opened again for each entry.
void read_reopened(std::span<const std::byte> bytes) {
  constexpr size_t kMost = 256;  // archives may use a quarter of them
  const FewOpenFiles few(kMost);
  const auto path = file_with(bytes, "input.tar");
  static std::vector<TarReader> others;
  while (others.size() < kMost / 4) others.emplace_back(path);
  const TarReader reader(path);
  read_entries(reader);
  file_with(bytes.first(bytes.size() / 2), "input.tar");
  read_changed(reader);
}

/// An archive of unknown size that is read in order, as from a command.
class MemoryInput : public TarInput {
 public:
  explicit MemoryInput(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t read(int64_t offset, char* to, size_t size) override {
    const auto at = std::min(static_cast<size_t>(offset), bytes_.size());
    const auto count = std::min(size, bytes_.size() - at);
    if (count > 0) std::memcpy(to, bytes_.data() + at, count);
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
};

void read_tar_stream(std::span<const std::byte> bytes) {
  MemoryInput input(bytes);
  TarScanner scanner("input", input, TarScanner::kUnknown);
  while (scanner.next()) {
  }
}

/// Corrects the checksum of every block that could be a header.
void mend_tar(Bytes& bytes) {
  for (size_t at = 0; at + kTarBlock <= bytes.size(); at += kTarBlock) {
    const auto block = std::span(bytes).subspan(at, kTarBlock);
    if (std::memcmp(&block[257], "ustar", 5) != 0) continue;
    std::fill_n(block.begin() + 148, 8, std::byte{' '});
    unsigned sum = 0;
    for (const auto byte : block) sum += std::to_integer<unsigned>(byte);
    const auto text = fmt::format("{:06o}", sum & 0777777);
    std::memcpy(&block[148], text.data(), 6);
    block[154] = std::byte{0};
  }
}

std::map<std::string, Bytes> tar_seeds() {
  const auto archive = [](const std::vector<std::string>& names) {
    return written("input.tar", [&](const std::string& path) {
      TarWriter writer(path);
      for (const auto& name : names) writer.add(name, bytes_of("contents of " + name));
      writer.commit();
    });
  };
  // A link to the first, as a header of the type 1.
  auto links = archive({"a.jpg", "b.jpg"});
  const auto target = bytes_of("a.jpg");
  links[2 * kTarBlock + 156] = std::byte{'1'};
  std::ranges::copy(target, links.begin() + 2 * kTarBlock + 157);
  std::fill_n(links.begin() + 2 * kTarBlock + 124, 11, std::byte{'0'});
  links.erase(links.begin() + 3 * kTarBlock, links.begin() + 4 * kTarBlock);
  mend_tar(links);
  return {{"two.tar", archive({"a.jpg", "b/c.png"})},
          {"links.tar", links},
          {"long.tar", archive({std::string(150, 'n') + ".jpg"})},
          {"pax.tar", archive({std::string(300, 'p') + ".jpg", "last"})}};
}

Bytes gzip(std::span<const std::byte> contents) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(contents.size() + 100);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes zstd(std::span<const std::byte> contents) {
  Bytes packed(ZSTD_compressBound(contents.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), contents.data(), contents.size(), 9));
  return packed;
}

/// Each archive as one part, and one as two parts, which follow each other.
std::map<std::string, Bytes> packed_seeds(Bytes (*pack)(std::span<const std::byte>)) {
  std::map<std::string, Bytes> seeds;
  for (const auto& [name, contents] : tar_seeds()) seeds[name] = pack(contents);
  const auto contents = tar_seeds().at("two.tar");
  auto parts = pack(std::span(contents).first(1000));
  const auto second = pack(std::span(contents).subspan(1000));
  parts.insert(parts.end(), second.begin(), second.end());
  seeds["parts"] = parts;
  return seeds;
}

void read_statistics(std::span<const std::byte> bytes) {
  read_npz(file_with(bytes, "input.npz"), {"mu", "sigma"}, {"image_count", "image_size"});
}

std::map<std::string, Bytes> npz_seeds() {
  const auto file = [](const TensorMap& arrays) {
    return written("input.npz", [&](const std::string& path) { write_npz(path, arrays); });
  };
  TensorMap arrays = {{"mu", at::arange(3, at::kDouble)}, {"sigma", at::eye(3, at::kDouble)}};
  std::map<std::string, Bytes> seeds = {{"statistics.npz", file(arrays)}};
  arrays["image_count"] = at::ones({1}, at::kDouble);
  seeds["counted.npz"] = file(arrays);
  return seeds;
}

void read_npz_images(std::span<const std::byte> bytes) {
  const NpzSource source(file_with(bytes, "input.npz"), {.pixels = 1 << 16, .side = 256});
  for (int64_t i = 0; i < std::min<int64_t>(source.size(), 8); ++i) {
    source.load(i);
    source.label(i);
  }
}

std::map<std::string, Bytes> npz_images_seeds() {
  return {{"images.npz", bytes_of(npz_images(2, 3, 1, std::string(18, 'x')))},
          {"classes.npz", bytes_of(npz_images(3, 1, 2, std::string(18, 'x'), {1, 0, 1}))}};
}

}  // namespace

void mend_zip(Bytes& bytes) {
  for (size_t at = 0; at + 46 <= bytes.size(); ++at) {
    if (std::memcmp(&bytes[at], "PK\1\2", 4) != 0) continue;
    const size_t member = little_endian32(bytes, at + 42), size = little_endian32(bytes, at + 20);
    if (member > bytes.size() || bytes.size() - member < 30) continue;
    const size_t names = std::to_integer<size_t>(bytes[member + 26]) +
                         (std::to_integer<size_t>(bytes[member + 27]) << 8) +
                         std::to_integer<size_t>(bytes[member + 28]) +
                         (std::to_integer<size_t>(bytes[member + 29]) << 8);
    const size_t data = member + 30 + names;
    if (data > bytes.size() || size > bytes.size() - data) continue;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + data), static_cast<uInt>(size)));
    put_little_endian32(bytes, at + 16, crc);
    put_little_endian32(bytes, member + 14, crc);
  }
}

Bytes zip_of(const std::vector<std::pair<std::string, Bytes>>& members) {
  Bytes file, directory;
  const auto append = [](Bytes& to, std::span<const std::byte> more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  // Fields of two bytes each, from the version that is needed to the length of extra fields.
  const auto fields = [&](Bytes& to, const std::string& name, size_t size) {
    Bytes header(26);
    header[0] = std::byte{20};
    put_little_endian32(header, 14, static_cast<uint32_t>(size));
    put_little_endian32(header, 18, static_cast<uint32_t>(size));
    header[22] = static_cast<std::byte>(name.size());
    append(to, header);
  };
  for (const auto& [name, contents] : members) {
    const auto at = file.size();
    append(file, bytes_of("PK\3\4"));
    fields(file, name, contents.size());
    append(file, bytes_of(name));
    append(file, contents);
    append(directory, bytes_of(std::string("PK\1\2\24\0", 6)));
    fields(directory, name, contents.size());
    Bytes place(14);  // the last four are where the member begins
    put_little_endian32(place, 10, static_cast<uint32_t>(at));
    append(directory, place);
    append(directory, bytes_of(name));
  }
  Bytes end(22);
  std::ranges::copy(bytes_of("PK\5\6"), end.begin());
  end[8] = end[10] = static_cast<std::byte>(members.size());
  put_little_endian32(end, 12, static_cast<uint32_t>(directory.size()));
  put_little_endian32(end, 16, static_cast<uint32_t>(file.size()));
  append(file, directory);
  append(file, end);
  mend_zip(file);
  return file;
}

std::vector<FuzzTarget> archive_targets() {
  return {
      {"tar", read_tar, tar_seeds, mend_tar},
      {"tar_reopened", read_reopened, tar_seeds, mend_tar},
      {"tar_stream", read_tar_stream, tar_seeds, mend_tar},
      {"tar_gz", read_tar, [] { return packed_seeds(gzip); }},
      {"tar_zst", read_tar, [] { return packed_seeds(zstd); }},
      {"npz", read_statistics, npz_seeds, mend_zip},
      {"npz_images", read_npz_images, npz_images_seeds, mend_zip},
  };
}

}  // namespace nsvq
