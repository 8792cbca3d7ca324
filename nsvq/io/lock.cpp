#include "nsvq/io/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

std::optional<FolderLock> FolderLock::try_take(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw RunError("cannot write {}: {}", path.string(), std::strerror(errno));
  // The system releases it with the process, so a killed run leaves nothing to clean up.
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return FolderLock(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (error == EWOULDBLOCK) return std::nullopt;
  // Some network file systems know no locks: better to train without than not at all.
  return FolderLock(-1);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace nsvq
