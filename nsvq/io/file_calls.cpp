#include "nsvq/io/file_calls.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/retry_interrupted.h"

namespace nsvq {

namespace fs = std::filesystem;

void fail_read(const fs::path& path, int error) {
  throw UserError("cannot read {}: {}", path.string(), std::strerror(error));
}

void fail_write(const fs::path& path, int error) {
  throw RunError("cannot write {}: {}", path.string(), std::strerror(error));
}

Descriptor open_file(const fs::path& path, int flags) {
  return Descriptor(
      retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

int rename_file(const fs::path& from, const fs::path& to) {
  return retry_interrupted([&] { return ::rename(from.c_str(), to.c_str()); });
}

void write_all(const fs::path& path, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        retry_interrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (written < 0) fail_write(path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

// Pipes, devices and some file systems' folders cannot be synced and say EINVAL.
void sync_descriptor(const fs::path& path, int descriptor) {
  const int result = retry_interrupted([&] { return ::fsync(descriptor); });
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) fail_write(path, errno);
}

void sync_path(const fs::path& path) {
  const Descriptor file = open_file(path, O_RDONLY);
  if (!file) fail_write(path, errno);
  sync_descriptor(path, file.get());
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw RunError("cannot create folder {}: {}", folder.string(), error.message());
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace nsvq
