#pragma once

#include <sys/types.h>

#include <cstddef>
#include <mutex>
#include <span>
#include <string>

#include "nsvq/io/files/descriptor.h"

namespace nsvq {

/// How a command ended.
struct CommandEnd {
  bool success = false;
  /// Its exit status or signal, and the last line of what it said on standard error:
  /// `exit status 1, 'cat: a.tar: No such file'`.
  std::string text;
};

/// A shell command whose output is read. The command and all that it starts are killed when this
/// object or this process ends before.
class CommandOutput {
 public:
  /// Throws RunError.
  explicit CommandOutput(std::string command);
  ~CommandOutput();
  CommandOutput(const CommandOutput&) = delete;
  CommandOutput& operator=(const CommandOutput&) = delete;

  /// Fewer bytes than asked for only at the end, or after `stop`.
  size_t read(std::span<char> bytes);
  /// Kills the command and lets `read` return. From any thread.
  void stop();
  /// Waits for the end of the command, whose output has ended or is read no further.
  CommandEnd finish();

 private:
  bool wait_for_output();
  void read_errors();
  int reap();

  std::string command_;
  Descriptor output_, errors_, stopped_;
  std::string said_;  // the end of what came on standard error
  std::mutex mutex_;  // guards process_, for a process that is reaped may not be killed
  pid_t process_ = -1;
};

}  // namespace nsvq
