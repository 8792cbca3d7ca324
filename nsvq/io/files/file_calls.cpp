#include "nsvq/io/files/file_calls.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "nsvq/core/error.h"
#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/files/no_room.h"

namespace nsvq {

namespace fs = std::filesystem;

void fail_read(const fs::path& path, int error) {
  throw UserError("cannot read {}: {}", path.string(), std::strerror(error));
}

void fail_write(const fs::path& path, int error) {
  if (means_no_room(error)) {
    throw NoRoom("cannot write {}: {}", path.string(), std::strerror(error));
  }
  throw RunError("cannot write {}: {}", path.string(), std::strerror(error));
}

Descriptor open_file(const fs::path& path, int flags) {
  return Descriptor(
      retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

/// Asked before opening, which some devices answer by doing something, and again of what was
/// opened: a pipe may have taken the file's place. Without O_NONBLOCK a pipe would wait for its
/// other end.
Descriptor open_regular(const fs::path& path, struct stat& info) {
  const auto require_regular = [&] {
    if (S_ISDIR(info.st_mode)) fail_read(path, EISDIR);
    if (!S_ISREG(info.st_mode)) throw UserError("cannot read {}: not a file", path.string());
  };
  if (::stat(path.c_str(), &info) != 0) fail_read(path, errno);
  require_regular();
  Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file || ::fstat(file.get(), &info) != 0) fail_read(path, errno);
  require_regular();
  return file;
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
  if (!error) return;
  if (means_no_room(error.value())) {
    throw NoRoom("cannot create folder {}: {}", folder.string(), error.message());
  }
  throw RunError("cannot create folder {}: {}", folder.string(), error.message());
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace nsvq
