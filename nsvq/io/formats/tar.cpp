#include "nsvq/io/formats/tar.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/formats/decompress.h"
#include "nsvq/io/formats/tar_headers.h"

namespace nsvq {

namespace {

/// Opens a regular file. (Without O_NONBLOCK opening a pipe would wait for its writer.)
Descriptor open_archive(const std::filesystem::path& path, struct stat& status) {
  Descriptor file = open_file(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file && errno == EMFILE)
    throw RunError("{}: too many open files; raise the limit (ulimit -n 4096) or use fewer threads",
                   path.string());
  if (!file) throw UserError("{}: cannot open ({})", path.string(), std::strerror(errno));
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw UserError("{}: not a regular file", path.string());
  return file;
}

int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

std::atomic<int64_t> archives_held{0};

/// Whether one more archive may stay open: at most a quarter of the process's descriptors.
bool hold_archive() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  if (static_cast<uint64_t>(archives_held.fetch_add(1)) < limit.rlim_cur / 4) return true;
  --archives_held;
  return false;
}

bool is_compressed_file(int descriptor) {
  std::array<std::byte, 4> first{};
  const ssize_t got = ::pread(descriptor, first.data(), first.size(), 0);
  return got > 0 && is_compressed(std::span(first).first(static_cast<size_t>(got)));
}

}  // namespace

TarReader::TarReader(std::filesystem::path path) : path_(std::move(path)) {
  const std::string name = path_.string();
  struct stat status {};
  Descriptor file = open_archive(path_, status);
  if (status.st_size == 0)
    throw UserError("{}: is empty; make or download the archive again", name);
  const bool compressed = is_compressed_file(file.get());
  if (compressed) {
    file = Descriptor(decompress_to_temporary(file.get(), path_));
    if (::fstat(file.get(), &status) != 0) throw RunError("{}: cannot be read", name);
  }
  bytes_ = status.st_size;
  changed_ = nanoseconds(status.st_mtim);
  entries_ = read_tar_headers(name, file.get(), bytes_);
  if (hold_archive()) {
    descriptor_ = file.release();
  } else if (compressed) {  // the temporary file has no name to open it by again
    ++archives_held;
    descriptor_ = file.release();
  }
}

TarReader::~TarReader() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  --archives_held;
}

TarReader::TarReader(TarReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_),
      changed_(other.changed_),
      entries_(std::move(other.entries_)) {}

std::vector<std::byte> TarReader::read(const TarEntry& entry) const {
  Descriptor opened;
  if (descriptor_ < 0) {
    struct stat status {};
    opened = open_archive(path_, status);
    if (status.st_size != bytes_ || nanoseconds(status.st_mtim) != changed_)
      throw RunError("{}: was changed while in use; start again", path_.string());
  }
  const int descriptor = descriptor_ < 0 ? opened.get() : descriptor_;
  std::vector<std::byte> bytes(static_cast<size_t>(entry.size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = retry_interrupted([&] {
      return ::pread(descriptor, bytes.data() + done, bytes.size() - done,
                     entry.offset + static_cast<int64_t>(done));
    });
    if (got < 0)
      throw RunError("{}: cannot read {} ({})", path_.string(), entry.name, std::strerror(errno));
    if (got == 0)
      throw RunError("{}: {} ends early at offset {}: the archive was changed while in use",
                     path_.string(), entry.name, entry.offset + static_cast<int64_t>(done));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace nsvq
