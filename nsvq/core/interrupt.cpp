#include "nsvq/core/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

namespace nsvq {

namespace {

constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP};

// Written by handlers on any thread and read by all.
std::atomic<int> stop_signal{0};
std::atomic<bool> checkpoint_wanted{false};
std::atomic<int> stop_at_once{0};
std::atomic<bool> pressed{false};  // whether SIGINT has come
std::atomic<bool> saves{true};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

std::string_view line_for(bool saving, bool pressed_once) {
  if (saving && pressed_once) return "\nnsvq: stopping and saving (Ctrl-C again stops at once)\n";
  if (saving) return "\nnsvq: stopping and saving (Ctrl-C twice stops at once)\n";
  if (pressed_once) return "\nnsvq: stopping (Ctrl-C again stops at once)\n";
  return "\nnsvq: stopping (Ctrl-C twice stops at once)\n";
}

void on_stop(int number) {
  const int error = errno;  // errno of the call that the signal interrupted
  const bool again = number == SIGINT && pressed.exchange(true);
  int none = 0;
  if (stop_at_once > 0 || again) {
    ::signal(number, SIG_DFL);
    ::raise(number);  // ends the process when this handler returns
  } else if (stop_signal.compare_exchange_strong(none, number)) {
    const std::string_view line = line_for(saves, number == SIGINT);
    // Written in one call, since other ranks write theirs too.
    [[maybe_unused]] const auto written = ::write(2, line.data(), line.size());
  }
  errno = error;
}

void on_checkpoint_request(int /*number*/) { checkpoint_wanted = true; }

// The program that reads the log (tee, less) may end before training does, which then goes on
// without it. A handler and not SIG_IGN, which programs started from here would inherit.
void on_broken_pipe(int /*number*/) {}

void handle(int number, void (*handler)(int)) {
  struct sigaction before {};
  ::sigaction(number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(number, &action, nullptr);
}

}  // namespace

void catch_interrupts(OnStop on_stop_does) {
  saves = on_stop_does == OnStop::saves;
  stop_signal = 0;
  pressed = false;
  checkpoint_wanted = false;
  for (const int number : kStopSignals) handle(number, on_stop);
  handle(SIGUSR1, on_checkpoint_request);
  handle(SIGPIPE, on_broken_pipe);
}

StopAtOnceGuard::StopAtOnceGuard() { ++stop_at_once; }
StopAtOnceGuard::~StopAtOnceGuard() { --stop_at_once; }

bool interrupted() { return stop_signal != 0; }

bool checkpoint_requested() { return checkpoint_wanted.exchange(false); }

int Interrupted::exit_code() const { return 128 + (stop_signal == SIGINT ? SIGINT : SIGTERM); }

void throw_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace nsvq
