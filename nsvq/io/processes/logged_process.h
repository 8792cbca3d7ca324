#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nsvq {

/// A program that runs as the leader of a process group of its own and prints to the end of a log.
/// Its group is killed when this process ends, however it ends.
class LoggedProcess {
 public:
  /// Throws RunError if it cannot be started. `environment` is NAME=VALUE over this process's.
  LoggedProcess(const std::string& program, const std::vector<std::string>& arguments,
                const std::vector<std::string>& environment, std::filesystem::path log);

  /// The status of wait(2), once it has ended.
  std::optional<int> status() const;
  /// Why it ended with a status other than 0, in a line: what it said last, or the signal.
  std::string reason(int status) const;
  /// Sends a signal to its group.
  void signal(int number) const;

 private:
  std::filesystem::path log_;
  uintmax_t log_from_ = 0;  ///< where its own part of the log begins
  pid_t process_ = -1;
};

}  // namespace nsvq
