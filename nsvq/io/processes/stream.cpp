#include "nsvq/io/processes/stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/files/file_calls.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

size_t read_some(const fs::path& path, int descriptor, std::span<std::byte> bytes) {
  const ssize_t got =
      retry_interrupted([&] { return ::read(descriptor, bytes.data(), bytes.size()); });
  if (got < 0) fail_read(path, errno);
  return static_cast<size_t>(got);
}

}  // namespace

std::vector<std::byte> read_to_end(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_read(path, errno);
  // The size is a hint: a pipe has none, and a file may grow. One byte more finds the end.
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  size_t filled = 0;
  while (const size_t got = read_some(path, descriptor, std::span(bytes).subspan(filled))) {
    filled += got;
    if (filled == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
  }
  bytes.resize(filled);
  return bytes;
}

std::vector<std::byte> read_stream(const fs::path& path) {
  const Descriptor file = open_file(path, O_RDONLY | O_NOCTTY);
  if (!file) fail_read(path, errno);
  return read_to_end(file.get(), path);
}

}  // namespace nsvq
