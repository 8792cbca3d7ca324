#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// A new process has these standard streams (-1: /dev/null) and no other descriptors.
struct SpawnOptions {
  int input = -1, output = -1, error = -1;
  bool own_group = true;                      ///< leads a process group of its own
  std::vector<std::string> environment = {};  ///< NAME=VALUE, added to this process's environment
};

/// Starts a program, searched in PATH if its name has no slash. The arguments are passed unchanged:
/// no shell reads them. Returns its process; -1 with errno set if that fails.
///
/// It is killed when the calling thread ends, in particular when this process ends or is killed
/// (PR_SET_PDEATHSIG). Processes that it has started are not: those that write to a pipe of this
/// process end by SIGPIPE, any others outlive it.
pid_t spawn_program(const std::string& program, const std::vector<std::string>& arguments,
                    const SpawnOptions& options);

/// Starts `/bin/sh -c command`: for commands that a user wrote for a shell.
pid_t spawn_shell(const std::string& command, const SpawnOptions& options);

/// A program that leads a process group and prints to the end of a log. Started by spawn_program.
class LoggedProcess {
 public:
  /// Throws RunError if it cannot be started. `environment` as in SpawnOptions.
  LoggedProcess(const std::string& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment, std::filesystem::path log);

  /// Status of wait(2); nullopt while it runs.
  std::optional<int> status() const;
  /// Why it ended with a nonzero status, in one line: its last message, or the signal.
  std::string reason(int status) const;
  /// Sends a signal to its group.
  void signal(int number) const;

 private:
  std::filesystem::path log_;
  uintmax_t log_from_ = 0;  ///< length of the log before it started
  pid_t process_ = -1;
};

/// Strings as the null-terminated array of pointers that execve takes.
class ExecWords {
 public:
  explicit ExecWords(std::vector<std::string> texts);
  ExecWords(const ExecWords&) = delete;
  ExecWords& operator=(const ExecWords&) = delete;

  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

/// This process's environment, in which these NAME=VALUE replace variables of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& own);

}  // namespace nsvq
