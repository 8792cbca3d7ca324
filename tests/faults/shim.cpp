// A library for LD_PRELOAD that stands between a program and the C library's calls on files, and
// makes one of them fail (fault.h). tests/python/file_faults.py uses it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "tests/faults/fault.h"

using namespace faults;

namespace {

/// The system call, unless its fault is an errno.
template <typename... Arguments>
long call_unless(int fault, long number, Arguments... arguments) {
  if (fault <= 0) return syscall(number, arguments...);
  errno = fault;
  return -1;
}

int open_at(int base, const char* path, int flags, mode_t mode) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);
  const int fault = fault_at_path(writes ? open_ : read_, base, path);
  return static_cast<int>(call_unless(fault, SYS_openat, base, path, flags, mode));
}

int sync_by(long number, int descriptor, bool whole_system) {
  const int fault = fault_of_descriptor(sync_, descriptor);
  const int result = static_cast<int>(call_unless(fault, number, descriptor));
  if (result == 0) note_sync(descriptor, whole_system);
  return result;
}

/// read, write and those at a position; `more` is the position.
template <typename... More>
ssize_t transfer(Kind kind, long number, int descriptor, void* data, size_t size, More... more) {
  const int fault = fault_of_descriptor(kind, descriptor);
  if (kind == write_) note_write(descriptor);
  if (fault == kShort && size > 1) size /= 2;
  return call_unless(fault, number, descriptor, data, size, more...);
}

mode_t mode_of(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

#define WITH_MODE(call)                          \
  va_list arguments;                             \
  va_start(arguments, flags);                    \
  const mode_t mode = mode_of(flags, arguments); \
  va_end(arguments);                             \
  return call

// NOLINTBEGIN: the C library's names
extern "C" {

int open(const char* path, int flags, ...) { WITH_MODE(open_at(AT_FDCWD, path, flags, mode)); }
int open64(const char* path, int flags, ...) { WITH_MODE(open_at(AT_FDCWD, path, flags, mode)); }
int openat(int base, const char* path, int flags, ...) {
  WITH_MODE(open_at(base, path, flags, mode));
}
int openat64(int base, const char* path, int flags, ...) {
  WITH_MODE(open_at(base, path, flags, mode));
}
int __open_2(const char* path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }

int mkdir(const char* path, mode_t mode) {
  return call_unless(fault_at_path(mkdir_, AT_FDCWD, path), SYS_mkdirat, AT_FDCWD, path, mode);
}

ssize_t write(int file, const void* data, size_t size) {
  return transfer(write_, SYS_write, file, const_cast<void*>(data), size);
}
ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  return transfer(write_, SYS_pwrite64, file, const_cast<void*>(data), size, at);
}
ssize_t pwrite64(int file, const void* data, size_t size, off_t at) {
  return transfer(write_, SYS_pwrite64, file, const_cast<void*>(data), size, at);
}
ssize_t read(int file, void* data, size_t size) {
  return transfer(read_, SYS_read, file, data, size);
}
ssize_t __read_chk(int file, void* data, size_t size, size_t) {
  return transfer(read_, SYS_read, file, data, size);
}
ssize_t pread(int file, void* data, size_t size, off_t at) {
  return transfer(read_, SYS_pread64, file, data, size, at);
}
ssize_t pread64(int file, void* data, size_t size, off_t at) {
  return transfer(read_, SYS_pread64, file, data, size, at);
}
ssize_t __pread_chk(int file, void* data, size_t size, off_t at, size_t) {
  return transfer(read_, SYS_pread64, file, data, size, at);
}
ssize_t __pread64_chk(int file, void* data, size_t size, off_t at, size_t) {
  return transfer(read_, SYS_pread64, file, data, size, at);
}

int fsync(int file) { return sync_by(SYS_fsync, file, false); }
int fdatasync(int file) { return sync_by(SYS_fdatasync, file, false); }
int syncfs(int file) noexcept { return sync_by(SYS_syncfs, file, true); }

int renameat2(int from_base, const char* from, int to_base, const char* to,
              unsigned flags) noexcept {
  return call_unless(fault_at_path(rename_, to_base, to), SYS_renameat2, from_base, from, to_base,
                     to, flags);
}
int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}
int link(const char* from, const char* to) noexcept {
  return call_unless(fault_at_path(rename_, AT_FDCWD, to), SYS_linkat, AT_FDCWD, from, AT_FDCWD, to,
                     0);
}

int ftruncate(int file, off_t size) noexcept {
  return call_unless(fault_of_descriptor(truncate_, file), SYS_ftruncate, file, size);
}
int ftruncate64(int file, off_t size) noexcept { return ftruncate(file, size); }

int unlinkat(int base, const char* path, int flags) noexcept {
  return call_unless(fault_at_path(remove_, base, path), SYS_unlinkat, base, path, flags);
}
int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) noexcept {
  const int result = unlink(path);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}

void* mmap(void* wanted, size_t size, int rights, int flags, int file, off_t at) noexcept {
  const int fault = file < 0 ? 0 : fault_of_descriptor(mmap_, file);
  return reinterpret_cast<void*>(
      call_unless(fault, SYS_mmap, wanted, size, rights, flags, file, at));
}
void* mmap64(void* wanted, size_t size, int rights, int flags, int file, off_t at) noexcept {
  return mmap(wanted, size, rights, flags, file, at);
}

// The C library's own, under names that need no look-up, which would itself allocate.
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

static bool refused(size_t size) {
  if (fault_of_allocation(size) == 0) return false;
  errno = ENOMEM;
  return true;
}
void* malloc(size_t size) { return refused(size) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return refused(count * size) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return refused(size) ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return refused(size) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** to, size_t alignment, size_t size) {
  *to = aligned_alloc(alignment, size);
  return *to ? 0 : ENOMEM;
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_shift();
  return static_cast<int>(result);
}
}
// NOLINTEND
