#include "nsvq/cli/program/program.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/command_line.h"
#include "nsvq/cli/program/version.h"
#include "nsvq/core/device.h"
#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/text.h"
#include "nsvq/core/threads/shared_cores.h"

namespace nsvq {

namespace {

int fail(int code, const std::string& message) {
  log_line("nsvq: " + message);
  return code;
}

/// The first line of an error of torch; the others are about its own source.
int fail_in_torch(const std::string& message) {
  if (is_out_of_memory(message)) return fail(kRunError, explain_out_of_memory(message));
  return fail(kRunError, message.substr(0, message.find('\n')));
}

/// An error of std::filesystem, without its text about functions. A name that cannot be used is the
/// user's error.
int fail_at_path(const std::filesystem::filesystem_error& error) {
  const auto& code = error.code();
  const bool name = code == std::errc::filename_too_long || code == std::errc::not_a_directory ||
                    code == std::errc::permission_denied ||
                    code == std::errc::too_many_symbolic_link_levels;
  return fail(name ? kUserError : kRunError,
              fmt::format("{}: {}", error.path1().string(), code.message()));
}

/// Raises the soft limit of open files, usually 1,024: large datasets have more tar shards, which
/// are kept open.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int parse_and_run(std::vector<std::string> words) {
  CLI::App app("nsvq: discrete image tokenizers that do not collapse", "nsvq");
  app.set_version_flag("--version", version_text(), "print the program's versions")->group(kRare);
  app.formatter(help_formatter(asks_for_all_help(words)));
  declare_commands(app, commands());
  if (words.empty()) {
    fmt::print("{}", app.help());
    return kUserError;
  }
  try {
    words = read_words(std::move(words), app);
    // CLI11 takes the last word first.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    std::ostringstream text;
    const int code = app.exit(success, text, text);
    fmt::print("{}", text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    return fail(kUserError, describe_error(error, app, words));
  }
}

}  // namespace

void open_standard_streams() {
  // So that a file beyond `ulimit -f` is an error of write, like a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  // open takes the lowest free number, which is the closed one.
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", O_RDWR);
  }
}

void begin_without_many_threads(char** argv) {
  const auto text = environment_text("OMP_NUM_THREADS").value_or("");
  const auto asked = parse_decimal(text.substr(0, text.find(','))).value_or(0);
  if (asked <= kMostThreads) return;
  log("OMP_NUM_THREADS={} is more than {} threads: left out", text, kMostThreads);
  ::unsetenv("OMP_NUM_THREADS");
  ::execv("/proc/self/exe", argv);
}

int run_program(int argc, char** argv) {
  allow_many_files();
  const SharedCores cores;
  try {
    const int code = parse_and_run({argv + 1, argv + argc});
    flush_stdout();  // a full disk may show only when the last of the output is written
    return code;
  } catch (const Interrupted& stop) {
    return stop.exit_code();
  } catch (const ExitCode& code) {
    return code.value;
  } catch (const UserError& error) {
    return fail(kUserError, error.what());
  } catch (const c10::Error& error) {
    return fail_in_torch(error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    return fail_in_torch(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return fail_at_path(error);
  } catch (const std::system_error& error) {
    // fmt::print throws one where standard output cannot be written.
    if (!std::ferror(stdout)) return fail(kRunError, error.what());
    std::clearerr(stdout);
    return fail(kRunError, "cannot write to standard output: " + error.code().message());
  } catch (const std::exception& error) {
    return fail(kRunError, error.what());
  }
}

}  // namespace nsvq
