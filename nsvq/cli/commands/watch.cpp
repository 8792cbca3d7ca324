#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/cli/program/command.h"
#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/report/live_runs.h"

namespace nsvq {

namespace {

using httplib::Request;
using httplib::Response;

struct WatchArguments {
  std::string folder = "runs", host = "127.0.0.1";
  int port = 7007;
};

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, text.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), ignored.data()) == 1;
}

/// Whether a Host header names a server at `host`. A page elsewhere whose name was pointed at this
/// machine (DNS rebinding) sends its own name: only addresses, localhost and this machine's names
/// pass.
bool is_own_host(const std::string& header, const std::string& host) {
  const bool bracketed = header.starts_with('[');  // [::1]:8080
  const auto end = header.find(bracketed ? ']' : ':');
  if (bracketed && end == std::string::npos) return false;
  const auto name = lower_case(bracketed ? header.substr(1, end - 1) : header.substr(0, end));
  return is_address(name) || name == "localhost" ||
         (!name.empty() && (name == lower_case(host) || name == lower_case(host_name())));
}

void check_requests(httplib::Server& server, const std::string& host) {
  server.set_payload_max_length(1 << 16);
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_pre_routing_handler([host](const Request& request, Response& response) {
    // The library would take a second for 300 kB by Brotli, and any memory for thousands of ranges.
    auto& mutable_request = const_cast<Request&>(request);
    mutable_request.headers.erase("Accept-Encoding");
    mutable_request.ranges.clear();
    if (is_own_host(request.get_header_value("Host"), host))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
}

void answer_requests(httplib::Server& server, const LiveRuns& runs) {
  const auto serve = [&server](const char* path, const char* type, auto text_for) {
    server.Get(path, [=](const Request& request, Response& response) {
      const std::optional<std::string> text = text_for(request);
      response.status = text ? 200 : 404;
      response.set_content(text.value_or(""), type);
    });
  };
  const auto name = [](const Request& request) { return request.get_param_value("run"); };
  const auto* json = "application/json";
  serve("/", "text/html; charset=utf-8", [&runs](const Request&) { return runs.page(); });
  serve("/runs", json, [&runs](const Request&) { return runs.list(); });
  serve("/run", json, [&runs, name](const Request& request) { return runs.run(name(request)); });
  serve("/codes", json,
        [&runs, name](const Request& request) { return runs.codes(name(request)); });
  serve("/picture", "image/png", [&runs, name](const Request& request) {
    return runs.picture(name(request),
                        parse_decimal(request.get_param_value("epoch")).value_or(-1));
  });
  server.set_error_handler([](const Request&, Response& response) {
    const char* text = "this request cannot be answered\n";
    if (response.status == 403) text = "this server answers by its address, not by this name\n";
    if (response.status == 404) text = "nothing is served there\n";
    response.set_content(text, "text/plain");
  });
}

/// Listens at a port, which it returns. Throws UserError.
int bind(httplib::Server& server, const std::string& host, int port) {
  // The library's own options would let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (port != 0 && server.bind_to_port(host, port)) return port;
  if (const int any = port == 0 ? server.bind_to_any_port(host) : -1; any > 0) return any;
  throw UserError(
      "cannot listen at {} port {}: taken, or no address of this machine; choose by --port or "
      "--host",
      host, port);
}

void run_watch(const WatchArguments& arguments) {
  const auto& host = arguments.host;
  const LiveRuns runs(arguments.folder);
  httplib::Server server;
  check_requests(server, host);
  answer_requests(server, runs);
  const int port = bind(server, host, arguments.port);
  const bool v6 = host.find(':') != std::string::npos;
  fmt::print("http://{}{}{}:{}/ shows {}; Ctrl-C ends it\n", v6 ? "[" : "", host, v6 ? "]" : "",
             port, printable(arguments.folder));
  std::fflush(stdout);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, [](int) { ::_exit(0); });
  server.listen_after_bind();
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
      "ssh -CL 7007:127.0.0.1:7007 MACHINE, then http://127.0.0.1:7007/ in the browser.");
  app.callback([arguments] { run_watch(*arguments); });
}

}  // namespace nsvq
