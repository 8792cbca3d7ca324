#include "nsvq/io/files/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/files/file_calls.h"

namespace nsvq {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  struct stat info {};
  file_ = open_regular(path_, info);
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
