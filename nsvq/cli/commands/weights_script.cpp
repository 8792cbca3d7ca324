#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "nsvq/cli/paths.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/program.h"
#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::string own_script() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto installed = (program.parent_path() / kInstalledWeightsScript).lexically_normal();
  return is_file(installed) ? installed.string() : kWeightsScript;
}

std::string find_script() {
  const auto chosen = environment_text("NSVQ_WEIGHTS_SCRIPT").value_or("");
  const std::string script = chosen.empty() ? own_script() : chosen;
  if (is_file(script)) return script;
  throw UserError("no file {}; name scripts/weights.py of a clone of nsvq in NSVQ_WEIGHTS_SCRIPT",
                  script);
}

std::string choose_python() {
  const auto chosen = environment_text("NSVQ_PYTHON").value_or("");
  if (!chosen.empty()) return chosen;
  return is_file(kTorchPython) ? kTorchPython : "python3";
}

/// While one lives, Ctrl-C ends the script alone: this process has a temporary folder to remove.
class IgnoredInterrupt {
 public:
  IgnoredInterrupt() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &before_);
  }
  ~IgnoredInterrupt() { ::sigaction(SIGINT, &before_, nullptr); }
  IgnoredInterrupt(const IgnoredInterrupt&) = delete;
  IgnoredInterrupt& operator=(const IgnoredInterrupt&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace

void run_weights_script(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {find_script()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto python = choose_python();
  const pid_t process = spawn_program(python, words, {.error = STDERR_FILENO, .own_group = false});
  if (process < 0) {
    throw UserError("cannot run {} ({}); name a Python in NSVQ_PYTHON", python,
                    std::strerror(errno));
  }
  const IgnoredInterrupt ignored;
  int status = 0;
  retry_interrupted([&] { return ::waitpid(process, &status, 0); });
  if (status == 0) return;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) throw RunError("interrupted");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  if (code == kUserError || code == kRunError) throw ExitCode{code};
  throw RunError("{} ended with code {}", python, code);
}

}  // namespace nsvq
