#include "nsvq/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/file_calls.h"

namespace nsvq {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info {};
  const auto require_regular = [&] {
    if (S_ISDIR(info.st_mode)) fail_read(path_, EISDIR);
    if (!S_ISREG(info.st_mode)) throw UserError("cannot read {}: not a file", path_.string());
  };
  // Asked before opening, which some devices answer by doing something, and again of what was
  // opened: a pipe may have taken the file's place. Without O_NONBLOCK a pipe would wait for its
  // other end.
  if (::stat(path_.c_str(), &info) != 0) fail_read(path_, errno);
  require_regular();
  file_ = open_file(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file_ || ::fstat(file_.get(), &info) != 0) fail_read(path_, errno);
  require_regular();
  size_ = static_cast<uint64_t>(info.st_size);
}

void InputFile::read(uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = retry_interrupted([&] {
      return ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    });
    if (got < 0) fail_read(path_, errno);
    if (got == 0) throw UserError("cannot read {}: it ends at byte {}", path_.string(), offset);
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

}  // namespace nsvq
