#pragma once

#include <signal.h>

#include <array>

namespace nsvq {

/// The signals that the program handles.
inline constexpr std::array kHandledSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

/// For tests that send signals: a shell may have started them with some ignored (SIGINT of jobs in
/// the background, SIGHUP by nohup), which the program leaves ignored.
inline void reset_signals() {
  for (const int number : kHandledSignals) ::signal(number, SIG_DFL);
}

}  // namespace nsvq
