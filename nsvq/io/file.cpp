#include "nsvq/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/append_file.h"
#include "nsvq/io/atomic_file.h"
#include "nsvq/io/file_calls.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

size_t read_some(const fs::path& path, int descriptor, std::span<std::byte> bytes) {
  const ssize_t got =
      retry_interrupted([&] { return ::read(descriptor, bytes.data(), bytes.size()); });
  if (got < 0) fail_read(path, errno);
  return static_cast<size_t>(got);
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::vector<std::byte> read_file(const fs::path& path) {
  const Descriptor file = open_file(path, O_RDONLY);
  if (!file) fail_read(path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_read(path, errno);
  // The size is a hint: a pipe has none, and a file may grow. One byte more finds the end.
  std::vector<std::byte> bytes(static_cast<size_t>(std::max<off_t>(info.st_size, 0)) + 1);
  size_t filled = 0;
  while (const size_t got = read_some(path, file.get(), std::span(bytes).subspan(filled))) {
    filled += got;
    if (filled == bytes.size()) bytes.resize(bytes.size() * 2 + 4096);
  }
  bytes.resize(filled);
  return bytes;
}

std::string read_text(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_text(const fs::path& path, std::string_view text) { write_file(path, bytes_of(text)); }

void replace_file(const fs::path& path, const fs::path& temporary, std::span<const std::byte> bytes,
                  Sync sync) {
  make_folders(parent_of(path));
  {
    const Descriptor file = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file) fail_write(path, errno);
    write_all(path, file.get(), bytes);
    if (sync == Sync::yes) sync_descriptor(path, file.get());
  }
  if (rename_file(temporary, path) != 0) fail_write(path, errno);
}

void sync_file_system(const fs::path& folder) {
  const Descriptor file = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (!file) fail_write(folder, errno);
  if (::syncfs(file.get()) == 0) return;
  if (errno != ENOSYS) fail_write(folder, errno);
  ::sync();  // a kernel without syncfs
}

void append_line(const fs::path& path, std::string_view line) {
  make_folders(parent_of(path));
  AppendFile(path).append(std::string(line) + '\n');
}

}  // namespace nsvq
