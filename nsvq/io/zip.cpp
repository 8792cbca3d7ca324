#include "nsvq/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <string_view>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr size_t kLongestComment = 0xffff;
constexpr uint64_t kLimit = 0xffffffff;  // of this format without its 64-bit extension
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncrypted = 1;
constexpr uint64_t kBestRatio = 1032;     // of deflate
constexpr uint32_t kFirstDay = 0x210000;  // 1 January 1980, 0:00

/// The little-endian numbers of a record, one after the other.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t next(size_t count) {
    uint32_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint32_t>(bytes_[i]);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  void skip(size_t count) { bytes_ = bytes_.subspan(count); }

 private:
  std::span<const std::byte> bytes_;
};

std::vector<std::byte> read_at(const InputFile& file, uint64_t offset, uint64_t count) {
  if (offset > file.size() || count > file.size() - offset) {
    throw UserError("the zip file is truncated");
  }
  std::vector<std::byte> bytes(count);
  file.read(offset, bytes);
  return bytes;
}

struct Directory {
  uint32_t entries, bytes, offset;
};

Directory find_directory(const InputFile& file) {
  const auto length = std::min<uint64_t>(file.size(), kEndBytes + kLongestComment);
  const auto tail = read_at(file, file.size() - length, length);
  for (size_t at = tail.size(); at-- > 0;) {
    if (tail.size() - at < kEndBytes) continue;
    Fields fields{std::span(tail).subspan(at)};
    if (fields.next(4) != kEnd) continue;
    fields.skip(6);
    Directory directory{};
    directory.entries = fields.next(2);
    directory.bytes = fields.next(4);
    directory.offset = fields.next(4);
    return directory;
  }
  throw UserError("not a zip file, or a truncated one");
}

/// `rest` begins with an entry of the directory and is moved behind it.
ZipEntry next_entry(std::span<const std::byte>& rest) {
  if (rest.size() < kCentralBytes) throw UserError("the zip file's directory is cut off");
  Fields fields(rest);
  if (fields.next(4) != kCentral) throw UserError("the zip file's directory is damaged");
  fields.skip(4);
  ZipEntry entry;
  const uint32_t flags = fields.next(2);
  entry.method = static_cast<uint16_t>(fields.next(2));
  fields.skip(4);
  entry.crc = fields.next(4);
  entry.packed = fields.next(4);
  entry.size = fields.next(4);
  const uint32_t name = fields.next(2), extra = fields.next(2), comment = fields.next(2);
  fields.skip(8);
  entry.header = fields.next(4);
  if (rest.size() - kCentralBytes < name + extra + comment) {
    throw UserError("the zip file's directory is cut off");
  }
  if (flags & kEncrypted) throw UserError("the zip file is encrypted");
  entry.name.assign(reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name);
  rest = rest.subspan(kCentralBytes + name + extra + comment);
  return entry;
}

std::vector<std::byte> inflate_all(std::vector<std::byte> packed, uint64_t size) {
  if (size / kBestRatio > packed.size()) throw UserError("the zip file's sizes do not add up");
  std::vector<std::byte> bytes(size);
  std::byte nothing;  // zlib wants a place even for no bytes
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.empty() ? &nothing : bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw RunError("zlib cannot begin");
  const int status = inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0 && stream.avail_in == 0;
  inflateEnd(&stream);
  if (!whole) throw UserError("the zip file's compressed data is damaged");
  return bytes;
}

uint32_t add_to_crc(uint32_t crc, std::span<const std::byte> bytes) {
  if (bytes.empty()) return crc;  // zlib would begin anew where there is no address
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Little-endian, zeros beyond the value's own bytes.
void append(std::string& bytes, size_t count, uint64_t value) {
  for (size_t i = 0; i < count; ++i, value >>= 8) bytes += static_cast<char>(value);
}

/// What the local header and the directory have in common.
std::string common_fields(const ZipEntry& entry) {
  std::string bytes;
  append(bytes, 2, 20);  // needs version 2.0
  append(bytes, 2, 0);   // flags
  append(bytes, 2, entry.method);
  append(bytes, 4, kFirstDay);
  append(bytes, 4, entry.crc);
  append(bytes, 4, entry.packed);
  append(bytes, 4, entry.size);
  append(bytes, 2, entry.name.size());
  append(bytes, 2, 0);  // extra
  return bytes;
}

}  // namespace

std::vector<ZipEntry> list_zip(const InputFile& file) {
  const auto directory = find_directory(file);
  const auto bytes = read_at(file, directory.offset, directory.bytes);
  std::vector<ZipEntry> entries;
  std::span<const std::byte> rest = bytes;
  for (uint32_t i = 0; i < directory.entries; ++i) entries.push_back(next_entry(rest));
  return entries;
}

std::vector<std::byte> read_zip_entry(const InputFile& file, const ZipEntry& entry) {
  if (entry.packed == kLimit || entry.size == kLimit || entry.header == kLimit) {
    throw UserError("a zip file beyond 4 GiB, which is not supported");
  }
  const auto header = read_at(file, entry.header, kLocalBytes);
  Fields fields(header);
  if (fields.next(4) != kLocal) throw UserError("the zip file is damaged");
  fields.skip(kLocalBytes - 8);
  const uint64_t names = uint64_t{fields.next(2)} + fields.next(2);
  auto bytes = read_at(file, entry.header + kLocalBytes + names, entry.packed);
  if (entry.method == kDeflated) {
    bytes = inflate_all(std::move(bytes), entry.size);
  } else if (entry.method != kStored) {
    throw UserError("the zip file is compressed by method {}, which is not supported",
                    entry.method);
  }
  if (bytes.size() != entry.size || add_to_crc(0, bytes) != entry.crc) {
    throw UserError("the zip file is damaged: a checksum does not hold");
  }
  return bytes;
}

void ZipWriter::add(const std::string& name, const std::vector<std::span<const std::byte>>& parts) {
  ZipEntry entry{.name = name, .method = kStored, .header = position_};
  for (const auto& part : parts) {
    entry.crc = add_to_crc(entry.crc, part);
    entry.size += part.size();
  }
  entry.packed = entry.size;
  if (position_ + entry.size + kLocalBytes + name.size() >= kLimit) {
    throw RunError("a zip file beyond 4 GiB, which is not supported");
  }
  std::string header;
  append(header, 4, kLocal);
  write(header + common_fields(entry) + name);
  for (const auto& part : parts) {
    file_.write(part);
    position_ += part.size();
  }
  entries_.push_back(entry);
}

void ZipWriter::commit() {
  std::string directory;
  for (const auto& entry : entries_) {
    append(directory, 4, kCentral);
    append(directory, 2, 20);  // made by version 2.0
    directory += common_fields(entry);
    append(directory, 10, 0);  // comment, disk, attributes
    append(directory, 4, entry.header);
    directory += entry.name;
  }
  std::string end;
  append(end, 4, kEnd);
  append(end, 4, 0);  // disks
  append(end, 2, entries_.size());
  append(end, 2, entries_.size());
  append(end, 4, directory.size());
  append(end, 4, position_);
  append(end, 2, 0);  // comment
  write(directory + end);
  file_.commit();
}

void ZipWriter::write(const std::string& bytes) {
  file_.write(std::as_bytes(std::span(bytes)));
  position_ += bytes.size();
}

}  // namespace nsvq
