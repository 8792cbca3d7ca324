#include "nsvq/cli/commands/weights_script.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "nsvq/cli/paths.h"
#include "nsvq/core/error.h"
#include "nsvq/core/retry_interrupted.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/descriptor.h"
#include "nsvq/io/files/file.h"
#include "nsvq/io/processes/spawn.h"

namespace nsvq {

namespace {

std::string setting(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// In the source tree or, of an installed program, beside it.
std::string own_script() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto installed = (program.parent_path() / kInstalledWeightsScript).lexically_normal();
  return is_file(installed) ? installed.string() : kWeightsScript;
}

std::string find_script() {
  const auto chosen = setting("NSVQ_WEIGHTS_SCRIPT");
  const std::string script = chosen.empty() ? own_script() : chosen;
  if (is_file(script)) return script;
  throw UserError(
      "no file {}{}; set NSVQ_WEIGHTS_SCRIPT to scripts/weights.py of a clone of nsvq, or run that "
      "script by hand and bring in its files with `nsvq weights import` (docs/weights.md)",
      script, chosen.empty() ? ", because the program was moved away from its source tree" : "");
}

std::string choose_python() {
  const auto chosen = setting("NSVQ_PYTHON");
  if (!chosen.empty()) return chosen;
  return is_file(kTorchPython) ? kTorchPython : "python3";
}

std::string last_line(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

/// While one lives, Ctrl-C does not end this process, which has temporary folders to remove.
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

/// Runs a program in this process group, so that Ctrl-C reaches it, with its errors in a file.
/// Returns the status of wait(2).
int run_to_its_end(const std::string& program, const std::vector<std::string>& arguments,
                   const std::filesystem::path& errors) {
  const Descriptor file(::open(errors.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file) throw RunError("{}: {}", errors.string(), std::strerror(errno));
  SpawnOptions options;
  options.error = file.get();
  options.group = SpawnOptions::Group::same;
  const pid_t process = spawn_program(program, arguments, options);
  if (process < 0) {
    throw UserError("cannot run {} ({}); name a Python in NSVQ_PYTHON", program,
                    std::strerror(errno));
  }
  const IgnoredInterrupt ignored;
  int status = 0;
  retry_interrupted([&] { return ::waitpid(process, &status, 0); });
  return status;
}

}  // namespace

void run_weights_script(const std::vector<std::string>& arguments) {
  const auto python = choose_python();
  const TemporaryFolder scratch;
  const auto errors = scratch / "errors";
  std::vector<std::string> words = {find_script()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const int status = run_to_its_end(python, words, errors);
  if (status == 0) return;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) throw RunError("interrupted");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  const auto said = last_line(read_text(errors));
  if (code == 2 && !said.empty()) throw UserError("{}", said);
  if (code == 3 && !said.empty()) throw RunError("{}", said);
  throw RunError("{} ended with code {}: {}", python, code, said);
}

}  // namespace nsvq
