#include "nsvq/cli/python.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nsvq/cli/weights_script.h"
#include "nsvq/core/error.h"

namespace nsvq {

namespace {

std::string choose_python() {
  const char* chosen = std::getenv("NSVQ_PYTHON");
  if (chosen && *chosen) return chosen;
  std::error_code ignored;
  if (std::filesystem::exists(kTorchPython, ignored)) return kTorchPython;
  return "python3";
}

/// While it lives, Ctrl-C ends the process that is waited for, not the one that waits and has to
/// tidy up.
class IgnoreInterrupt {
 public:
  IgnoreInterrupt() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~IgnoreInterrupt() { ::sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

/// Starts a program without input or output, its standard error going to `error`.
pid_t start(const std::vector<std::string>& command, int error) {
  std::vector<char*> argv;
  for (const auto& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, error, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t process = -1;
  const int failed = ::posix_spawnp(&process, argv[0], &files, &attributes, argv.data(), ::environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed == 0) return process;
  throw UserError("cannot run {}: {}; name a Python in NSVQ_PYTHON", command[0],
                  std::strerror(failed));
}

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(descriptor, buffer, sizeof(buffer));
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

void run_weights_script(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {choose_python(), "-c", kWeightsScript};
  command.insert(command.end(), arguments.begin(), arguments.end());
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw RunError("cannot open a pipe: {}", strerror(errno));
  const IgnoreInterrupt guard;
  pid_t process = -1;
  try {
    process = start(command, pipe[1]);
  } catch (...) {
    ::close(pipe[0]);
    ::close(pipe[1]);
    throw;
  }
  ::close(pipe[1]);
  const auto said = last_line(read_all(pipe[0]));
  ::close(pipe[0]);
  const int code = wait_for(process);
  if (code == 0) return;
  if (code == 2 && !said.empty()) throw UserError("{}", said);
  if (code == 3 && !said.empty()) throw RunError("{}", said);
  if (code == -SIGINT) throw RunError("interrupted");
  throw RunError("{} ended with code {}: {}", command[0], code, said);
}

}  // namespace nsvq
