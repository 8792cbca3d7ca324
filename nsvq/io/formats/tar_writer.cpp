#include "nsvq/io/formats/tar_writer.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/tar_headers.h"

namespace nsvq {

namespace {

constexpr size_t kLongestName = 100, kLongestPrefix = 155;
constexpr uint64_t kLargestFile = uint64_t{1} << 33;  // one more than 11 octal digits hold

/// USTAR's prefix and name, which a slash joins; both empty if a name does not fit.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  if (name.size() <= kLongestName) return {"", name};
  const size_t least = name.size() - kLongestName - 1;
  const size_t slash = name.find('/', least);
  const bool fits = slash != std::string_view::npos && slash > 0 && slash <= kLongestPrefix &&
                    slash + 1 < name.size();
  if (!fits) return {};
  return {name.substr(0, slash), name.substr(slash + 1)};
}

/// "<length of the record> <key>=<value>\n", where the length counts its own digits.
std::string pax_record(std::string_view key, std::string_view value) {
  const size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (rest + std::to_string(length).size() != length) ++length;
  return fmt::format("{} {}={}\n", length, key, value);
}

void set_checksum(TarBlock& block) {
  std::memset(&block[148], ' ', 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(&block[148], 8, "%06o", sum);
}

}  // namespace

void TarWriter::add(std::string_view name, std::span<const std::byte> contents) {
  if (name.empty() || name.find('\0') != std::string_view::npos) {
    throw UserError("{} cannot be the name of a file in a tar archive", quote(name));
  }
  if (contents.size() >= kLargestFile) {
    throw UserError("{}: {} bytes are too many for a tar entry", quote(name), contents.size());
  }
  const auto [prefix, rest] = split(name);
  if (!rest.empty()) return add_entry(prefix, rest, '0', contents);
  const std::string record = pax_record("path", name);
  add_entry("", "PaxHeader", 'x', std::as_bytes(std::span(record)));
  add_entry("", name.substr(name.size() - kLongestName), '0', contents);
}

void TarWriter::add_entry(std::string_view prefix, std::string_view name, char type,
                          std::span<const std::byte> contents) {
  TarBlock block{};
  std::memcpy(&block[0], name.data(), name.size());
  std::snprintf(&block[100], 8, "%07o", 0644u);
  std::snprintf(&block[108], 8, "%07o", 0u);
  std::snprintf(&block[116], 8, "%07o", 0u);
  std::snprintf(&block[124], 12, "%011llo", static_cast<unsigned long long>(contents.size()));
  std::snprintf(&block[136], 12, "%011o", 0u);
  block[156] = type;
  std::memcpy(&block[257], "ustar\00000", 8);
  std::memcpy(&block[345], prefix.data(), prefix.size());
  set_checksum(block);
  file_.write(std::as_bytes(std::span(block)));
  file_.write(contents);
  const TarBlock zeros{};
  const size_t padding = (kTarBlock - contents.size() % kTarBlock) % kTarBlock;
  file_.write(std::as_bytes(std::span(zeros).first(padding)));
}

void TarWriter::commit() {
  const std::array<std::byte, 2 * kTarBlock> end{};
  file_.write(end);
  file_.commit();
}

}  // namespace nsvq
