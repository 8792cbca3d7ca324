#include "nsvq/io/processes/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>

#include "nsvq/io/processes/exec_words.h"

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
    int flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    if (group == SpawnOptions::Group::new_session) flags |= POSIX_SPAWN_SETSID;
    if (group == SpawnOptions::Group::new_group) flags |= POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
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

pid_t spawn_program(const std::string& program, const std::vector<std::string>& arguments,
                    const SpawnOptions& options) {
  SpawnActions actions;
  actions.set_stream(STDIN_FILENO, options.input);
  actions.set_stream(STDOUT_FILENO, options.output);
  actions.set_stream(STDERR_FILENO, options.error);
  // Last, for it may take the number of one of the others.
  const bool extra = options.extra >= 0;
  if (extra) actions.set_stream(SpawnOptions::kExtraDescriptor, options.extra);
  actions.close_from(SpawnOptions::kExtraDescriptor + (extra ? 1 : 0));
  const SpawnAttributes attributes(options.group);
  std::vector<std::string> all = {program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ExecWords words(all), environment(environment_with(options.environment));
  pid_t process = -1;
  const int error = posix_spawnp(&process, program.c_str(), actions.get(), attributes.get(),
                                 words.get(), environment.get());
  if (error == 0) return process;
  errno = error;
  return -1;
}

pid_t spawn_shell(const std::string& command, const SpawnOptions& options) {
  return spawn_program("/bin/sh", {"-c", command}, options);
}

}  // namespace nsvq
