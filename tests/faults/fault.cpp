#include "tests/faults/fault.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>

namespace faults {

namespace {

constexpr int kKinds = std::size(kKindNames), kChanges = read_;
constexpr long kDay = 86'400;
constexpr int kLongest = 4096;

// Nothing here may allocate, as malloc is among the calls.
const char *folder, *kind_name, *what, *report;
long at, least_bytes, seen, counts[kKinds], shift;
bool ready, met, hit;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/// A file with bytes that were not synced, held open by a descriptor of our own.
struct Unsynced {
  dev_t device;
  ino_t number;
  off_t synced;
  int descriptor;
  bool is(const struct stat& info) const { return device == info.st_dev && number == info.st_ino; }
};
Unsynced unsynced[4096];
int unsynced_count;

bool is_what(const char* name) { return std::strcmp(what, name) == 0; }

void say(const char* line) {
  if (!report) return;
  const long file = syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND, 0666);
  syscall(SYS_write, file, line, std::strlen(line));
  syscall(SYS_close, file);
}

[[noreturn]] void end_process(bool lose) {
  for (int i = 0; lose && i < unsynced_count; ++i) {
    syscall(SYS_ftruncate, unsynced[i].descriptor, unsynced[i].synced);
  }
  syscall(SYS_exit_group, 137);
  __builtin_unreachable();
}

bool below_folder(const char* path) {
  const size_t length = std::strlen(folder);
  return std::strncmp(path, folder, length) == 0 && path[length] == '/';
}

/// The fault of this call, which is the n-th of its kind.
int chosen_fault(const char* path) {
  hit = true;
  char line[kLongest + 16];
  std::snprintf(line, sizeof(line), "hit %.*s\n", kLongest, path);
  say(line);
  if (is_what("crash") || is_what("lose")) end_process(is_what("lose"));
  if (is_what("future")) shift = kDay;
  if (is_what("past")) shift = -kDay;
  return is_what("short") ? kShort : std::atoi(what);
}

/// The result of a call after a lasting fault (full, readonly, gone); 0 without one.
int lasting_fault(Kind kind) {
  if (!hit || kind == malloc_) return 0;
  if (is_what("full") && (kind == open_ || kind == mkdir_ || kind == write_)) return ENOSPC;
  if (is_what("readonly") && kind < kChanges && kind != sync_) return EROFS;
  return is_what("gone") ? ESTALE : 0;
}

int fault(Kind kind, const char* path) {
  pthread_mutex_lock(&mutex);
  met = true;
  ++counts[kind];
  const bool of_kind = std::strcmp(kind_name, "change") == 0
                           ? kind < kChanges
                           : std::strcmp(kind_name, kKindNames[kind]) == 0;
  int result = of_kind && ++seen == at ? chosen_fault(path) : 0;
  if (const int lasting = lasting_fault(kind)) result = lasting;
  pthread_mutex_unlock(&mutex);
  return result;
}

/// Where a link of /proc leads to, in `path`, which holds kLongest; its length, or -1.
long follow(const char* link, char* path) {
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, kLongest - 1);
  if (length >= 0) path[length] = 0;
  return length;
}

__attribute__((constructor)) void begin() {
  const auto text = [](const char* name, const char* unset) {
    const char* value = std::getenv(name);
    return value ? value : unset;
  };
  folder = text("NSVQ_FAULT_FOLDER", nullptr);
  kind_name = text("NSVQ_FAULT_KIND", "");
  what = text("NSVQ_FAULT_WHAT", "");
  report = text("NSVQ_FAULT_REPORT", nullptr);
  at = std::atol(text("NSVQ_FAULT_AT", "0"));
  least_bytes = std::atol(text("NSVQ_FAULT_BYTES", "1048576"));
  ready = folder != nullptr;
}

__attribute__((destructor)) void end() {
  if (!ready) return;
  char line[64];
  for (int kind = 0; kind < kKinds; ++kind) {
    std::snprintf(line, sizeof(line), "%s %ld\n", kKindNames[kind], counts[kind]);
    say(line);
  }
  std::snprintf(line, sizeof(line), "change %ld\n", std::accumulate(counts, counts + kChanges, 0L));
  say(line);
  if (!hit && at > 0 && is_what("lose")) end_process(true);
}

}  // namespace

int fault_at_path(Kind kind, int base, const char* name) {
  char link[64] = "/proc/self/cwd", path[2 * kLongest] = "";
  if (!ready) return 0;
  if (base != AT_FDCWD) std::snprintf(link, sizeof(link), "/proc/self/fd/%d", base);
  if (name[0] != '/') {
    if (follow(link, path) < 0) return 0;
    std::strcat(path, "/");
  }
  std::strncat(path, name, kLongest - 1);
  return below_folder(path) ? fault(kind, path) : 0;
}

int fault_of_descriptor(Kind kind, int descriptor) {
  char link[64], path[kLongest];
  if (!ready) return 0;
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  return follow(link, path) >= 0 && below_folder(path) ? fault(kind, path) : 0;
}

int fault_of_allocation(unsigned long size) {
  if (!ready || !met || size < static_cast<unsigned long>(least_bytes)) return 0;
  return fault(malloc_, "memory");
}

void note_write(int descriptor) {
  struct stat info {};
  if (!ready || !is_what("lose") || fstat(descriptor, &info) != 0) return;
  pthread_mutex_lock(&mutex);
  const bool known = std::any_of(unsynced, unsynced + unsynced_count,
                                 [&](const Unsynced& one) { return one.is(info); });
  if (!known && S_ISREG(info.st_mode) && unsynced_count < static_cast<int>(std::size(unsynced))) {
    unsynced[unsynced_count++] = {info.st_dev, info.st_ino, info.st_size, ::dup(descriptor)};
  }
  pthread_mutex_unlock(&mutex);
}

void note_sync(int descriptor, bool whole_system) {
  struct stat info {};
  if (!ready || fstat(descriptor, &info) != 0) return;
  pthread_mutex_lock(&mutex);
  const auto* end = std::remove_if(unsynced, unsynced + unsynced_count, [&](const Unsynced& one) {
    if (!whole_system && !one.is(info)) return false;
    syscall(SYS_close, one.descriptor);
    return true;
  });
  unsynced_count = static_cast<int>(end - unsynced);
  pthread_mutex_unlock(&mutex);
}

long clock_shift() { return shift; }

}  // namespace faults
