#pragma once

#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace nsvq {

/// Tells of changes to files at any depth below a folder as they happen: by inotify, so that a test
/// waits for what another process does instead of for a time.
class FolderWatch {
 public:
  explicit FolderWatch(const std::filesystem::path& folder)
      : descriptor_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(descriptor_, 0);
    watch(folder);
  }
  ~FolderWatch() { ::close(descriptor_); }
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  /// Readable when there are changes.
  int descriptor() const { return descriptor_; }

  /// The name of the file of each change since the last call: made, written to, renamed (its new
  /// name), removed.
  std::vector<std::string> changes() {
    std::vector<std::string> names;
    alignas(inotify_event) char buffer[1 << 16];
    while (true) {
      const ssize_t length = ::read(descriptor_, buffer, sizeof(buffer));
      if (length <= 0) return names;
      for (ssize_t at = 0; at < length;) {
        const auto& event = *reinterpret_cast<const inotify_event*>(buffer + at);
        const std::string name = event.len > 0 ? event.name : "";
        if ((event.mask & IN_ISDIR) && (event.mask & (IN_CREATE | IN_MOVED_TO))) {
          watch(watched_[event.wd] / name);
        }
        if (!(event.mask & IN_IGNORED)) names.push_back(name);
        at += static_cast<ssize_t>(sizeof(event) + event.len);
      }
    }
  }

 private:
  void watch(const std::filesystem::path& folder) {
    constexpr uint32_t kChanges = IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE;
    const int watched = ::inotify_add_watch(descriptor_, folder.c_str(), kChanges | IN_ONLYDIR);
    if (watched < 0) return;  // removed again already
    watched_[watched] = folder;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.is_directory(ignored)) watch(entry.path());
    }
  }

  int descriptor_;
  std::map<int, std::filesystem::path> watched_;
};

}  // namespace nsvq
