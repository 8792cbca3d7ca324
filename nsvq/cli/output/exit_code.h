#pragma once

namespace nsvq {

constexpr int kUserError = 2;
constexpr int kRunError = 3;

/// Thrown by a command whose exit code is that of processes it has started.
struct ExitCode {
  int value;
};

}  // namespace nsvq
