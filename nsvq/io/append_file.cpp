#include "nsvq/io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  do {  // not blocking: a pipe is an error, not a wait for its reader
    descriptor_ = ::open(path_.c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0 && errno == ELOOP) {
    throw RunError("cannot write {}: it is a link; remove it", path_.string());
  }
  if (descriptor_ < 0) fail(errno);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view bytes) {
  const uint64_t before = length();
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      // Half a record would spoil the next one.
      [[maybe_unused]] const int ignored = ::ftruncate(descriptor_, static_cast<off_t>(before));
      fail(error);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void AppendFile::cut(uint64_t length) {
  int result = -1;
  do {
    result = ::ftruncate(descriptor_, static_cast<off_t>(length));
  } while (result != 0 && errno == EINTR);
  if (result != 0) fail(errno);
}

void AppendFile::sync() {
  int result = -1;
  do {
    result = ::fsync(descriptor_);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EINVAL && errno != ENOTSUP) fail(errno);
}

uint64_t AppendFile::length() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail(errno);
  return static_cast<uint64_t>(info.st_size);
}

void AppendFile::fail(int error) const {
  throw RunError("cannot write {}: {}", path_.string(), std::strerror(error));
}

}  // namespace nsvq
