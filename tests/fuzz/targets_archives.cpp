#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "nsvq/io/npz.h"
#include "nsvq/io/tar.h"
#include "nsvq/io/tar_block.h"
#include "nsvq/io/tar_headers.h"
#include "nsvq/io/tar_writer.h"
#include "tests/fuzz/byte_edits.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

/// Every entry is read as well.
void read_tar(std::span<const std::byte> bytes) {
  const TarReader reader(file_with(bytes, "input.tar"));
  for (const auto& entry : reader.entries()) reader.read(entry);
}

/// As a command writes it: in order, its size not known.
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

std::map<std::string, Bytes> tar_seeds() {
  const auto archive = [](const std::vector<std::string>& names) {
    return written("input.tar", [&](const std::string& path) {
      TarWriter writer(path);
      for (const auto& name : names) writer.add(name, bytes_of("contents of " + name));
      writer.commit();
    });
  };
  return {{"two.tar", archive({"a.jpg", "b/c.png"})},
          {"long.tar", archive({std::string(150, 'n') + ".jpg"})},
          {"pax.tar", archive({std::string(300, 'p') + ".jpg", "last"})}};
}

/// The checksum of every block that could be a header.
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

std::map<std::string, Bytes> gzip_seeds() {
  std::map<std::string, Bytes> seeds;
  for (const auto& [name, contents] : tar_seeds()) {
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
    seeds[name + ".gz"] = packed;
  }
  return seeds;
}

TensorMap arrays() {
  return {{"mu", at::arange(3, at::kDouble)}, {"sigma", at::eye(3, at::kDouble)}};
}

void read_statistics(std::span<const std::byte> bytes) {
  read_npz(file_with(bytes, "input.npz"), {"mu", "sigma"}, {"image_count"});
}

std::map<std::string, Bytes> npz_seeds() {
  return {{"statistics.npz",
           written("input.npz", [](const std::string& path) { write_npz(path, arrays()); })}};
}

/// The CRC-32 of stored members, in their own headers and in the directory at the end.
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

}  // namespace

std::vector<FuzzTarget> archive_targets() {
  return {
      {"tar", read_tar, tar_seeds, mend_tar},
      {"tar_stream", read_tar_stream, tar_seeds, mend_tar},
      {"tar_gz", read_tar, gzip_seeds},
      {"npz", read_statistics, npz_seeds, mend_zip},
  };
}

}  // namespace nsvq
