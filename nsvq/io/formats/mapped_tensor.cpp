#include "nsvq/io/formats/mapped_tensor.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/formats/safetensors_header.h"

namespace nsvq {

namespace {

/// The whole of a file in memory, as long as a tensor holds it.
std::byte* map_file(const std::filesystem::path& path, size_t bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const start = file < 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  const int error = errno;
  if (file >= 0) close(file);
  if (start != MAP_FAILED) return static_cast<std::byte*>(start);
  throw UserError("cannot map {} into memory: {}", path.string(), std::strerror(error));
}

}  // namespace

torch::Tensor map_tensor(const std::filesystem::path& path, const std::string& name) {
  const auto header = read_safetensors_header(path);
  const auto entry = std::ranges::find(header.entries, name, &TensorEntry::name);
  if (entry == header.entries.end()) {
    throw UserError("{}: holds no tensor {}", path.string(), quote(name));
  }
  if (entry->begin == entry->end) return at::empty(entry->shape, entry->type);
  uint64_t data = 0;
  for (const auto& one : header.entries) data = std::max(data, one.end);
  const uint64_t bytes = std::filesystem::file_size(path), begin = bytes - data + entry->begin;
  if (begin % torch::elementSize(entry->type) != 0) {
    throw UserError("{}: the tensor {} does not lie at a multiple of its numbers' size",
                    path.string(), quote(name));
  }
  auto* const start = map_file(path, bytes);
  return at::from_blob(
      start + begin, entry->shape, [start, bytes](void* /*numbers*/) { munmap(start, bytes); },
      entry->type);
}

}  // namespace nsvq
