#include "nsvq/cli/program/program.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>

#include "nsvq/cli/output/exit_code.h"
#include "nsvq/cli/output/stdout.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/help.h"
#include "nsvq/cli/program/memory_advice.h"
#include "nsvq/cli/program/old_spellings.h"
#include "nsvq/cli/program/version.h"
#include "nsvq/core/device.h"
#include "nsvq/core/environment.h"
#include "nsvq/core/interrupt.h"
#include "nsvq/core/log.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/patterns.h"

namespace nsvq {

namespace {

constexpr auto kExitCodes =
    "nsvq help COMMAND shows the arguments of a command.\n"
    "Exit codes: 0 done; 2 an error in arguments, settings or input files; 3 a failure at run "
    "time;\n"
    "130 or 143 stopped by SIGINT (Ctrl-C), SIGTERM or SIGHUP once what was done is saved (train,\n"
    "diffusion train, reproduce, detokenize). Other commands end by the signal; those that fill a\n"
    "folder complete it when they are run again.";

int fail(int code, const std::string& message) {
  log_line("nsvq: " + message);
  return code;
}

/// The first line of an error of torch; the others are about its own source.
int fail_in_torch(const std::string& message) {
  if (is_out_of_memory(message)) return fail(kRunError, explain_out_of_memory(message));
  return fail(kRunError, message.substr(0, message.find('\n')));
}

/// Throws UserError for an empty word: usually a variable of the shell that is not set.
void refuse_empty_words(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word.starts_with("--") && word.ends_with('=')) {
      throw UserError("{} is empty; give it a value or leave it out",
                      word.substr(0, word.size() - 1));
    }
    if (!word.empty()) continue;
    const bool of_option = i > 0 && words[i - 1].starts_with("--");
    throw UserError("{} is empty; give it a value or leave it out",
                    of_option ? words[i - 1] : fmt::format("word {} of the command", i + 1));
  }
}

/// `nsvq COMMAND --help` for `nsvq help COMMAND`.
std::vector<std::string> with_help_as_flag(std::vector<std::string> words) {
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

/// Words with the home folder for ~ in `~/x` and `--run=~/x`, which a shell leaves alone within
/// quotes and after `=`. Training does it for settings (data.train=~/x).
std::vector<std::string> with_home_paths(std::vector<std::string> words) {
  for (auto& word : words) {
    const auto value = word.starts_with("--") ? word.find('=') + 1 : 0;
    if (word.starts_with("--") && value == 0) continue;
    word = word.substr(0, value) + home_path(word.substr(value));
  }
  return words;
}

/// Raises the soft limit of open files, usually 1,024: large datasets have more tar shards, which
/// are kept open.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// The innermost command that the arguments name.
CLI::App& named_command(CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : named_command(*chosen.front());
}

/// The commands of `nsvq`, or those of `nsvq tokens`.
std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

/// CLI11 would report a mistyped command as an unexpected argument, and with --help not at all.
void check_command_names(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) return;
  find_named(commands(), "command", words[0]);
  const auto names = subcommand_names(*app.get_subcommand(words[0]));
  if (names.empty() || words.size() < 2 || words[1].starts_with('-')) return;
  if (std::ranges::find(names, words[1]) != names.end()) return;
  throw UserError("unknown command {} of nsvq {}{} (there are: {})", quote(words[1]), words[0],
                  did_you_mean(words[1], names), fmt::join(names, ", "));
}

/// The setting to write where an option of other commands is given.
std::string hint_of_setting(const std::string& option, const std::string& hint) {
  static const std::map<std::string, std::string> words = {{"--device", "device=cuda"},
                                                           {"--data", "data.train=SOURCE"},
                                                           {"--batch-size", "train.batch_size=N"},
                                                           {"--seed", "seed=N"}};
  const auto found = words.find(option);
  if (found == words.end() && !hint.empty()) return hint;
  return "; settings are words such as " +
         (found == words.end() ? "train.epochs=10" : found->second);
}

/// An argument error in words. An unknown option comes first: CLI11 reports missing arguments, and
/// a misspelled option is the usual reason for one.
std::string describe(const CLI::ParseError& error, CLI::App& app) {
  for (const auto& word : app.remaining(/*recurse=*/true)) {
    if (!word.starts_with('-')) continue;
    std::vector<std::string> known;
    for (const auto* option : named_command(app).get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    const auto name = word.substr(0, word.find('='));
    auto hint = did_you_mean(name, known);
    if (named_command(app).get_option_no_throw("SETTINGS")) hint = hint_of_setting(name, hint);
    return fmt::format("unknown option {}{}", name, hint);
  }
  if (app.get_subcommands().empty()) return "a command is missing";
  if (const auto names = subcommand_names(named_command(app)); !names.empty()) {
    return fmt::format("a command is missing (there are: {})", fmt::join(names, ", "));
  }
  const std::string text = error.what();
  const auto* data = named_command(app).get_option_no_throw("--data");
  if (data && data->count() > 0 && text.ends_with("is required")) {
    return text + "; --data takes all words up to the next option, so name what is missing first";
  }
  return text;
}

int parse_and_run(std::vector<std::string> words) {
  CLI::App app("nsvq: discrete image tokenizers that do not collapse", "nsvq");
  app.set_version_flag("--version", version_text());
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(kExitCodes);
  declare_commands(app, commands());
  try {
    words = with_present_spellings(with_home_paths(with_help_as_flag(std::move(words))));
    check_command_names(app, words);
    refuse_empty_words(words);
    // CLI11 takes the last word first.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    std::ostringstream text;
    const int code = app.exit(success, text, text);
    fmt::print("{}", text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    std::string command;
    for (auto* one = &named_command(app); one != &app; one = one->get_parent()) {
      command = " " + one->get_name() + command;
    }
    return fail(kUserError, fmt::format("{} (nsvq help{})", describe(error, app), command));
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
