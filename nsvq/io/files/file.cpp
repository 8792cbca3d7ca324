#include "nsvq/io/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/files/append_file.h"
#include "nsvq/io/files/atomic_file.h"
#include "nsvq/io/files/file_calls.h"
#include "nsvq/io/processes/stream.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
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

}  // namespace nsvq
