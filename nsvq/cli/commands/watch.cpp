#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "nsvq/cli/program/command.h"
#include "nsvq/cli/program/page_server.h"
#include "nsvq/report/live_runs.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace {

struct WatchArguments {
  std::string folder = kRunsFolder, host = "127.0.0.1";
  int port = 7007;
};

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
      "ssh -CL 7007:127.0.0.1:7007 MACHINE, then http://127.0.0.1:7007/ in the browser.");
  app.callback(
      [arguments] { serve_runs(LiveRuns(arguments->folder), arguments->host, arguments->port); });
}

}  // namespace nsvq
