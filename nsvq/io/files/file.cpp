#include "nsvq/io/files/file.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/append_file.h"
#include "nsvq/io/files/atomic_file.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

/// What is left to read of an open file; errors name `path`.
std::vector<std::byte> read_to_end(int descriptor, const fs::path& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail_read(path, errno);
  // The size is a hint: a pipe has none, and a file may grow. One byte more finds the end.
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  size_t filled = 0;
  while (true) {
    const ssize_t got = retry_interrupted(
        [&] { return ::read(descriptor, bytes.data() + filled, bytes.size() - filled); });
    if (got < 0) fail_read(path, errno);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
    if (filled == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

std::vector<std::byte> read_file(const fs::path& path) {
  struct stat info {};
  const Descriptor file = open_regular(path, info);
  return read_to_end(file.get(), path);
}

std::string read_text(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::vector<std::byte> read_stream(const fs::path& path) {
  const Descriptor file = open_file(path, O_RDONLY | O_NOCTTY);
  if (!file) fail_read(path, errno);
  return read_to_end(file.get(), path);
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_text(const fs::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text)));
}

void replace_file(const fs::path& path, const fs::path& temporary, std::span<const std::byte> bytes,
                  Sync sync) {
  make_folders(parent_of(path));
  {
    ::unlink(temporary.c_str());  // left by a killed process, or a link that leads elsewhere
    const Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (!file) fail_write(path, errno);
    write_all(path, file.get(), bytes);
    if (sync == Sync::yes) sync_descriptor(path, file.get());
  }
  if (rename_file(temporary, path) != 0) fail_write(path, errno);
}

void sync_file_system(const fs::path& folder) {
  const Descriptor file = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (!file) fail_write(folder, errno);
  if (retry_interrupted([&] { return ::syncfs(file.get()); }) == 0) return;
  if (errno != ENOSYS) fail_write(folder, errno);
  ::sync();  // a kernel without syncfs
}

void append_line(const fs::path& path, std::string_view line) {
  make_folders(parent_of(path));
  AppendFile(path).append(std::string(line) + '\n');
}

bool path_exists(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error) fail_read(path, error.value());
  return found;
}

fs::path cache_folder() {
  const auto value = [](const char* variable) -> fs::path {
    const char* text = std::getenv(variable);
    return text ? text : "";
  };
  if (const auto cache = value("XDG_CACHE_HOME"); !cache.empty()) return cache / "nsvq";
  const auto home = value("HOME");
  return home.empty() ? home : home / ".cache" / "nsvq";
}

void fail_read(const fs::path& path, int error) {
  if (error == EIO || error == ESTALE || error == ENOTCONN || error == ETIMEDOUT ||
      error == ENODEV || error == ENXIO) {
    throw MachineFailure("cannot read {}: {}", path.string(), std::strerror(error));
  }
  throw UserError("cannot read {}: {}", path.string(), std::strerror(error));
}

void fail_write(const fs::path& path, int error) {
  if (means_no_room(error)) {
    throw NoRoom("cannot write {}: {}", path.string(), std::strerror(error));
  }
  if (error == EMFILE || error == ENFILE || error == EIO || error == ENOMEM) {
    throw MachineFailure("cannot write {}: {}", path.string(), std::strerror(error));
  }
  throw RunError("cannot write {}: {}", path.string(), std::strerror(error));
}

Descriptor open_file(const fs::path& path, int flags) {
  return Descriptor(
      retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); }));
}

/// Checks the type before opening, since opening some devices has effects, and again afterwards:
/// a pipe may have replaced the file. Without O_NONBLOCK a pipe would wait for its writer.
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

void make_folders(const fs::path& folder) try {
  make_named_folder(folder);
} catch (const UserError& error) {
  throw RunError("{}", error.what());
}

bool make_named_folder(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (!error) return made;
  if (means_no_room(error.value())) {
    throw NoRoom("cannot create folder {}: {}", folder.string(), error.message());
  }
  throw UserError("cannot create folder {}: {}", folder.string(), error.message());
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace nsvq
