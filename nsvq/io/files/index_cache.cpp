#include "nsvq/io/files/index_cache.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/cache_folder.h"
#include "nsvq/io/files/input_file.h"
#include "nsvq/io/files/sha256.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// A file is this line, the SHA-256 of the rest in hexadecimal digits, and the rest.
constexpr std::string_view kFirstLine = "nsvq index 1\n";
constexpr size_t kHashDigits = 64, kHead = kFirstLine.size() + kHashDigits;
constexpr uint64_t kMostBytes = uint64_t{1} << 34;

std::span<const std::byte> as_bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string hash_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace

fs::path index_cache_folder() {
  if (const char* chosen = std::getenv("NSVQ_INDEX_CACHE"); chosen && *chosen != '\0') {
    return std::string_view(chosen) == "off" ? "" : chosen;
  }
  const auto folder = cache_folder();
  return folder.empty() ? folder : folder / "index";
}

std::string index_name(const std::string& kind, const std::string& key) {
  return kind + "-" + hash_of(as_bytes_of(key));
}

std::optional<std::vector<std::byte>> read_index(const std::string& name) {
  const auto folder = index_cache_folder();
  if (folder.empty()) return std::nullopt;
  try {
    const InputFile file(folder / name);
    if (file.size() < kHead || file.size() > kMostBytes) return std::nullopt;
    std::string head(kHead, '\0');
    file.read(0, std::as_writable_bytes(std::span(head)));
    if (!head.starts_with(kFirstLine)) return std::nullopt;
    std::vector<std::byte> bytes(file.size() - kHead);
    file.read(kHead, bytes);
    if (hash_of(bytes) != head.substr(kFirstLine.size())) return std::nullopt;
    return bytes;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

bool write_index(const std::string& name, std::span<const std::byte> bytes) {
  const auto folder = index_cache_folder();
  if (folder.empty()) return false;
  try {
    AtomicFile file(folder / name);
    file.write(as_bytes_of(kFirstLine));
    file.write(as_bytes_of(hash_of(bytes)));
    file.write(bytes);
    file.commit();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace nsvq
