#include "nsvq/io/files/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"

namespace nsvq {

namespace {

int open_for_lock(const std::filesystem::path& path, int flags) {
  const int descriptor =
      retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (descriptor < 0 && errno == ELOOP) {
    throw UserError("{}: a link; remove it, nothing is written through links", path.string());
  }
  if (descriptor < 0) throw RunError("cannot write {}: {}", path.string(), std::strerror(errno));
  return descriptor;
}

}  // namespace

std::optional<FolderLock> FolderLock::try_take(const std::filesystem::path& folder) {
  return lock(open_for_lock(folder / kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW));
}

bool FolderLock::held(const std::filesystem::path& folder) {
  const auto path = folder / kLockFile;
  const int descriptor = retry_interrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
  if (descriptor < 0) return false;
  const auto ask = [&] { return ::flock(descriptor, LOCK_SH | LOCK_NB); };
  const bool held = retry_interrupted(ask) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return held;
}

std::optional<FolderLock> FolderLock::try_take_folder(const std::filesystem::path& folder) {
  return lock(open_for_lock(folder, O_RDONLY | O_DIRECTORY));
}

std::optional<FolderLock> FolderLock::lock(int descriptor) {
  // The system releases it with the process, so a killed run leaves nothing to clean up.
  int error = EWOULDBLOCK;
  // Retries, since `held` in another process holds the lock for a moment.
  for (int attempt = 0; attempt < 10 && (error == EWOULDBLOCK || error == EINTR); ++attempt) {
    if (attempt > 0) ::usleep(10'000);
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return FolderLock(descriptor);
    error = errno;
  }
  ::close(descriptor);
  if (error == EWOULDBLOCK) return std::nullopt;
  // Some network file systems have no locks: better to write without one than not at all.
  return FolderLock(-1);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace nsvq
