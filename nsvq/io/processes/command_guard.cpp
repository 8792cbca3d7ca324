#include "nsvq/io/processes/command_guard.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <mutex>
#include <string>

#include "nsvq/core/retry_interrupted.h"
#include "nsvq/io/files/descriptor.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

/// Reads "+ GROUP" and "- GROUP" until this process is gone, then kills the groups that are left.
/// (A command that was killed at once has not registered.)
constexpr auto kGuardScript = R"(
all=" "
while read -r sign group; do
  case $sign in
    +) all="$all$group " ;;
    -) case $all in *" $group "*) all="${all%% $group *} ${all#* $group }" ;; esac ;;
  esac
done
for group in $all; do kill -s KILL -- "-$group"; done
)";

class CommandGuard {
 public:
  ~CommandGuard() {
    socket_ = Descriptor();
    if (process_ > 0) retry_interrupted([&] { return ::waitpid(process_, nullptr, 0); });
  }

  int descriptor() {
    const std::lock_guard lock(mutex_);
    if (!started_) start();
    return socket_.get();  // -1 if it could not be started
  }

  void forget(pid_t group) {
    if (descriptor() < 0) return;
    const auto line = fmt::format("- {}\n", group);
    // Not write, which would raise SIGPIPE if someone killed the guard.
    retry_interrupted(
        [&] { return ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL); });
  }

 private:
  void start() {
    started_ = true;
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = Descriptor(ends[0]);
    const Descriptor other(ends[1]);
    SpawnOptions options;
    options.input = other.get();
    options.group = SpawnOptions::Group::new_session;  // no Ctrl-C reaches it
    process_ = spawn_shell(kGuardScript, options);
    if (process_ < 0) socket_ = Descriptor();
  }

  std::mutex mutex_;
  bool started_ = false;
  Descriptor socket_;
  pid_t process_ = -1;
};

CommandGuard& command_guard() {
  static CommandGuard guard;
  return guard;
}

}  // namespace

int guard_descriptor() { return command_guard().descriptor(); }

std::string with_registration(const std::string& command, int at) {
  // SIGPIPE would end the command if someone had killed the guard.
  return fmt::format("trap '' PIPE; echo \"+ $$\" >&{} 2>/dev/null; trap - PIPE; exec {}>&-\n{}",
                     at, at, command);
}

void forget_group(pid_t group) { command_guard().forget(group); }

}  // namespace nsvq
