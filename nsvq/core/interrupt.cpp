#include "nsvq/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <string_view>

namespace nsvq {

namespace {

volatile sig_atomic_t signalled = 0;

void on_signal(int /*number*/) {
  signalled = 1;
  // Both handlers are reset, so that any second signal, SIGINT or SIGTERM, ends the process.
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  constexpr std::string_view line =
      "\nnsvq: stopping after this step (interrupt again to stop at once)\n";
  [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
}

}  // namespace

void catch_interrupts() {
  signalled = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return signalled != 0; }

}  // namespace nsvq
