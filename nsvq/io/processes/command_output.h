#pragma once

#include <sys/types.h>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "nsvq/io/files/file.h"

namespace nsvq {

/// How a command ended.
struct CommandEnd {
  bool success = false;
  /// Its exit status or signal, and the last line that it printed on standard error:
  /// `exit status 1, 'cat: a.tar: No such file'`.
  std::string text;
};

/// A shell command whose output is read. The destructor kills the command and all processes of its
/// group. If this process is killed, spawn_program's rule holds: the shell is killed, and commands
/// that write to a pipe end by SIGPIPE. The thread that constructs it has to outlive it.
class CommandOutput {
 public:
  /// Throws RunError.
  explicit CommandOutput(std::string command);
  ~CommandOutput();
  CommandOutput(const CommandOutput&) = delete;
  CommandOutput& operator=(const CommandOutput&) = delete;

  /// Returns fewer bytes than asked for only at the end, or after `stop`.
  size_t read(std::span<char> bytes);
  /// Kills the command and lets `read` return. From any thread.
  void stop();
  /// Waits for the end of the command; output that has not been read is dropped.
  CommandEnd finish();

 private:
  bool wait_for_output();
  void read_errors();
  int reap();

  std::string command_;
  Descriptor output_, errors_, stopped_;
  std::string said_;  // the end of what it printed on standard error
  std::mutex mutex_;  // guards process_: a process that was reaped may not be signalled
  pid_t process_ = -1;
};

}  // namespace nsvq
