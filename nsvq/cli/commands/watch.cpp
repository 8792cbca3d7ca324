#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/page_server.h"
#include "nsvq/core/printable.h"

namespace nsvq {

namespace {

struct WatchArguments {
  std::string folder = "runs", host = "127.0.0.1";
  int port = 7007;
};

/// Signals that ask to stop, kept from all threads that are started while it lives.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&stops_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops_, number);
    pthread_sigmask(SIG_BLOCK, &stops_, &before_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Returns at the first. A second one ends the process at once.
  void wait() {
    int number = 0;
    sigwait(&stops_, &number);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t stops_{}, before_{};
};

void run_watch(const WatchArguments& arguments) {
  StopSignals stop;
  RunCatalog runs(arguments.folder);
  const PageServer server(runs, arguments.host, arguments.port);
  fmt::print("{} shows {}; Ctrl-C ends it\n", server.address(), printable(arguments.folder));
  std::fflush(stdout);
  stop.wait();
}

}  // namespace

void declare_watch(CLI::App& app) {
  const auto arguments = std::make_shared<WatchArguments>();
  app.add_option("DIR", arguments->folder, "a folder with runs in it or below, or a run")
      ->capture_default_str();
  app.add_option("--port", arguments->port, "port to listen at; 0: any free one, which is printed")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--host", arguments->host,
                 "address to listen at; 0.0.0.0 lets everyone who reaches this machine look")
      ->capture_default_str();
  app.footer(
      "Nothing is written, and nothing outside the folder is shown. From another machine:\n"
      "ssh -L 7007:127.0.0.1:7007 MACHINE, then http://127.0.0.1:7007/ in the browser.");
  app.callback([arguments] { run_watch(*arguments); });
}

}  // namespace nsvq
