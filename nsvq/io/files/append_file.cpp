#include "nsvq/io/files/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) { open(); }

void AppendFile::open() {
  // O_NONBLOCK: a pipe is an error, not a wait for its reader.
  file_ = open_file(path_, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
  if (!file_ && errno == ELOOP) {
    throw RunError("cannot write {}: it is a link; remove it", path_.string());
  }
  if (!file_) fail_write(path_, errno);
}

void AppendFile::break_hard_links() {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) fail_write(path_, errno);
  if (info.st_nlink <= 1) return;
  write_file(path_, read_file(path_));
  open();
}

void AppendFile::append(std::string_view bytes) {
  break_hard_links();
  const uint64_t before = length();
  try {
    write_all(path_, file_.get(), std::as_bytes(std::span(bytes)));
  } catch (const RunError&) {
    // Half a record would spoil the next one.
    [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), static_cast<off_t>(before));
    throw;
  }
}

void AppendFile::cut(uint64_t length) {
  break_hard_links();
  const auto cut = [&] { return ::ftruncate(file_.get(), static_cast<off_t>(length)); };
  if (retry_interrupted(cut) != 0) fail_write(path_, errno);
}

void AppendFile::sync() { sync_descriptor(path_, file_.get()); }

uint64_t AppendFile::length() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) fail_write(path_, errno);
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace nsvq
