#include "nsvq/io/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace nsvq {

namespace {

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  /// Makes `descriptor` the child's standard stream `stream`. (Were they equal, dup2 would take
  /// the close-on-exec flag away as well.)
  void set_stream(int stream, int descriptor) {
    if (descriptor >= 0) {
      posix_spawn_file_actions_adddup2(&actions_, descriptor, stream);
    } else {
      posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_RDWR, 0);
    }
  }
  void close_from([[maybe_unused]] int first) {
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions_, first);
#endif
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class SpawnAttributes {
 public:
  explicit SpawnAttributes(SpawnOptions::Group group) {
    posix_spawnattr_init(&attributes_);
    const bool session = group == SpawnOptions::Group::new_session;
    posix_spawnattr_setflags(
        &attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                         (session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP)));
    posix_spawnattr_setpgroup(&attributes_, 0);
    // A process that writes to nobody is to end, whatever this one does about that signal.
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

pid_t spawn_shell(const std::string& command, const SpawnOptions& options) {
  SpawnActions actions;
  actions.set_stream(STDIN_FILENO, options.input);
  actions.set_stream(STDOUT_FILENO, options.output);
  actions.set_stream(STDERR_FILENO, options.error);
  // Last, for it may take the number of one of the others.
  const bool extra = options.extra >= 0;
  if (extra) actions.set_stream(SpawnOptions::kExtraDescriptor, options.extra);
  actions.close_from(SpawnOptions::kExtraDescriptor + (extra ? 1 : 0));
  const SpawnAttributes attributes(options.group);
  std::string shell = "sh", flag = "-c", text = command;
  const std::array<char*, 4> words = {shell.data(), flag.data(), text.data(), nullptr};
  pid_t process = -1;
  const int error =
      posix_spawn(&process, "/bin/sh", actions.get(), attributes.get(), words.data(), environ);
  if (error == 0) return process;
  errno = error;
  return -1;
}

}  // namespace nsvq
