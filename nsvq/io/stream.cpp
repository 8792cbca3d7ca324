#include "nsvq/io/stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "nsvq/core/error.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_stream(const fs::path& path) {
  throw UserError("cannot read {}: {}", path.string(), std::strerror(errno));
}

size_t read_some(const fs::path& path, int descriptor, std::span<std::byte> bytes) {
  while (true) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail_stream(path);
  }
}

}  // namespace

std::vector<std::byte> read_to_end(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_stream(path);
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
  struct Opened {
    int descriptor;
    ~Opened() { ::close(descriptor); }
  };
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) fail_stream(path);
  const Opened opened{descriptor};
  return read_to_end(descriptor, path);
}

}  // namespace nsvq
