#include "nsvq/cli/weights_script.h"

#include <signal.h>
#include <sys/wait.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "nsvq/cli/paths.h"
#include "nsvq/core/error.h"
#include "nsvq/core/shell_word.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/file.h"

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

}  // namespace

void run_weights_script(const std::vector<std::string>& arguments) {
  const auto script = find_script(), python = choose_python();
  const TemporaryFolder scratch;
  const auto errors = scratch / "errors";
  // exec: a Ctrl-C that ends Python is then told from an exit code. While it waits, std::system
  // ignores Ctrl-C in this process, which has temporary folders to remove.
  auto command = "exec " + shell_word(python) + " " + shell_word(script);
  for (const auto& argument : arguments) command += " " + shell_word(argument);
  const int status =
      std::system((command + " </dev/null >/dev/null 2>" + shell_word(errors)).c_str());
  if (status == 0) return;
  if (status == -1) throw RunError("cannot start a shell to run {}", python);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) throw RunError("interrupted");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  const auto said = last_line(read_text(errors));
  if (code == 126 || code == 127) {  // the shell's, which finds no such program
    throw UserError("cannot run {} ({}); name a Python in NSVQ_PYTHON", python, said);
  }
  if (code == 2 && !said.empty()) throw UserError("{}", said);
  if (code == 3 && !said.empty()) throw RunError("{}", said);
  throw RunError("{} ended with code {}: {}", python, code, said);
}

}  // namespace nsvq
