#include "nsvq/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/io/append_file.h"
#include "nsvq/io/stream.h"

namespace nsvq {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_read(const fs::path& path, int error) {
  throw UserError("cannot read {}: {}", path.string(), std::strerror(error));
}

[[noreturn]] void fail_write(const fs::path& path, int error) {
  throw RunError("cannot write {}: {}", path.string(), std::strerror(error));
}

int open_or(const fs::path& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// Closes on every way out.
struct Descriptor {
  int value;
  ~Descriptor() { ::close(value); }
};

/// Opens a regular file for reading and describes it in `info`. Asked before opening, which some
/// devices answer by doing something, and again of what was opened: a pipe may have taken the
/// file's place. Without O_NONBLOCK a pipe would wait for its other end.
int open_regular(const fs::path& path, struct stat& info) {
  const auto require_regular = [&] {
    if (S_ISDIR(info.st_mode)) fail_read(path, EISDIR);
    if (!S_ISREG(info.st_mode)) throw UserError("cannot read {}: not a file", path.string());
  };
  if (::stat(path.c_str(), &info) != 0) fail_read(path, errno);
  require_regular();
  Descriptor file{open_or(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)};
  if (file.value < 0 || ::fstat(file.value, &info) != 0) fail_read(path, errno);
  require_regular();
  return std::exchange(file.value, -1);
}

void write_all(const fs::path& path, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(path, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

// Calls again what a signal interrupted, as network file systems allow.
template <typename Call>
int retried(const Call& call) {
  int result = -1;
  do {
    result = call();
  } while (result != 0 && errno == EINTR);
  return result;
}

int rename_file(const fs::path& from, const fs::path& to) {
  return retried([&] { return ::rename(from.c_str(), to.c_str()); });
}

// Pipes, devices and some file systems' folders cannot be synced and say EINVAL.
void sync_descriptor(const fs::path& path, int descriptor) {
  if (retried([&] { return ::fsync(descriptor); }) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail_write(path, errno);
}

void sync_path(const fs::path& path) {
  const Descriptor file{open_or(path, O_RDONLY)};
  if (file.value < 0) fail_write(path, errno);
  sync_descriptor(path, file.value);
}

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void make_folders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw RunError("cannot create folder {}: {}", folder.string(), error.message());
}

fs::path temporary_name(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return parent_of(path) /
         fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), counter++);
}

// Puts `fresh` in place of the folder `old`, whose files end under the name of `fresh`.
void exchange_folders(const fs::path& fresh, const fs::path& old) {
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, old.c_str(), RENAME_EXCHANGE);
  };
  if (retried(exchange) == 0) return;
  if (errno != EINVAL && errno != ENOSYS) fail_write(old, errno);
  // A file system without exchange: in three steps, undone if the second fails.
  const fs::path aside = temporary_name(old);
  if (rename_file(old, aside) != 0) fail_write(old, errno);
  if (rename_file(fresh, old) != 0) {
    const int error = errno;
    std::error_code ignored;
    fs::rename(aside, old, ignored);
    fail_write(old, error);
  }
  if (rename_file(aside, fresh) != 0) fail_write(fresh, errno);
}

void sync_tree(const fs::path& folder) try {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::file_status status = entry.symlink_status();
    if (fs::is_directory(status) || fs::is_regular_file(status)) sync_path(entry.path());
  }
  sync_path(folder);
} catch (const fs::filesystem_error& error) {
  fail_write(folder, error.code().value());
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

std::vector<std::byte> read_file(const fs::path& path) {
  struct stat info {};
  const Descriptor file{open_regular(path, info)};
  return read_to_end(file.value, path);
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
    const Descriptor file{open_or(temporary, O_WRONLY | O_CREAT | O_TRUNC)};
    if (file.value < 0) fail_write(path, errno);
    write_all(path, file.value, bytes);
    if (sync == Sync::yes) sync_descriptor(path, file.value);
  }
  if (rename_file(temporary, path) != 0) fail_write(path, errno);
}

void sync_file_system(const fs::path& folder) {
  const Descriptor file{open_or(folder, O_RDONLY | O_DIRECTORY)};
  if (file.value < 0) fail_write(folder, errno);
  if (::syncfs(file.value) == 0) return;
  if (errno != ENOSYS) fail_write(folder, errno);
  ::sync();  // a kernel without syncfs
}

void append_line(const fs::path& path, std::string_view line) {
  make_folders(parent_of(path));
  AppendFile(path).append(std::string(line) + '\n');
}

InputFile::InputFile(fs::path path) : path_(std::move(path)) {
  struct stat info {};
  descriptor_ = open_regular(path_, info);
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path_, errno);
    if (got == 0) throw UserError("cannot read {}: it ends at byte {}", path_.string(), offset);
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

AtomicFile::AtomicFile(fs::path final_path) : final_(std::move(final_path)) {
  make_folders(parent_of(final_));
  struct stat info {};
  const bool exists = ::stat(final_.c_str(), &info) == 0;
  if (!final_.has_filename() || (exists && S_ISDIR(info.st_mode))) fail_write(final_, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    descriptor_ = open_or(final_, O_WRONLY);  // renaming over /dev/null would replace it
  } else {
    do {  // a name in use was left by a process that had our number before
      temporary_ = temporary_name(final_);
      descriptor_ = open_or(temporary_, O_WRONLY | O_CREAT | O_EXCL);
    } while (descriptor_ < 0 && errno == EEXIST);
  }
  if (descriptor_ < 0) fail_write(final_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) { write_all(final_, descriptor_, bytes); }

void AtomicFile::commit() {
  sync_descriptor(final_, descriptor_);
  if (!temporary_.empty()) {
    if (rename_file(temporary_, final_) != 0) fail_write(final_, errno);
    temporary_.clear();
    sync_path(parent_of(final_));
  }
  ::close(std::exchange(descriptor_, -1));
}

AtomicFolder::AtomicFolder(fs::path final_path) : final_(std::move(final_path)) {
  if (!final_.has_filename()) final_ = final_.parent_path();  // "folder/"
  make_folders(parent_of(final_));
  int made = -1;
  do {
    temporary_ = temporary_name(final_);
    made = ::mkdir(temporary_.c_str(), 0777);
  } while (made != 0 && errno == EEXIST);
  if (made != 0) fail_write(final_, errno);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  sync_tree(temporary_);
  std::error_code ignored;
  if (fs::exists(final_, ignored) && !fs::is_directory(final_, ignored)) {
    throw RunError("cannot write folder {}: a file has that name", final_.string());
  }
  if (rename_file(temporary_, final_) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) fail_write(final_, errno);
    exchange_folders(temporary_, final_);
  }
  committed_ = true;
  sync_path(parent_of(final_));
  fs::remove_all(temporary_, ignored);  // the older one, if there was one
}

}  // namespace nsvq
