#include "nsvq/cli/program/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/report/live_runs.h"

namespace nsvq {

namespace {

using httplib::Request;
using httplib::Response;

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, text.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), ignored.data()) == 1;
}

/// "localhost" of "localhost:8080", "::1" of "[::1]:8080".
std::string without_port(const std::string& header) {
  if (header.starts_with('[')) {
    const auto end = header.find(']');
    return end == std::string::npos ? "" : header.substr(1, end - 1);
  }
  return header.substr(0, header.find(':'));
}

void send(Response& response, const std::optional<std::string>& json) {
  if (json) return response.set_content(*json, "application/json");
  response.status = 404;
  response.set_content("no such run\n", "text/plain");
}

void add_routes(httplib::Server& server, const LiveRuns& runs) {
  server.Get("/", [&](const Request&, Response& response) {
    response.set_content(runs.page(), "text/html; charset=utf-8");
  });
  server.Get("/runs", [&](const Request&, Response& response) { send(response, runs.list()); });
  server.Get("/run", [&](const Request& request, Response& response) {
    send(response, runs.run(request.get_param_value("run")));
  });
  server.Get("/codes", [&](const Request& request, Response& response) {
    send(response, runs.codes(request.get_param_value("run")));
  });
  server.Get("/picture", [&](const Request& request, Response& response) {
    const auto epoch = parse_decimal(request.get_param_value("epoch"));
    const auto png =
        epoch ? runs.picture(request.get_param_value("run"), static_cast<int64_t>(*epoch))
              : std::nullopt;
    if (!png) return send(response, std::nullopt);
    response.set_content(reinterpret_cast<const char*>(png->data()), png->size(), "image/png");
  });
}

void check_hosts(httplib::Server& server, const std::string& host) {
  server.set_pre_routing_handler([host](const Request& request, Response& response) {
    // The library would take a second for 300 kB by Brotli, and any memory for thousands of ranges.
    auto& mutable_request = const_cast<Request&>(request);
    mutable_request.headers.erase("Accept-Encoding");
    mutable_request.ranges.clear();
    if (is_own_host(request.get_header_value("Host"), host))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    response.set_content("this server answers by its address, not by this name\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
}

}  // namespace

bool is_own_host(const std::string& header, const std::string& host) {
  const auto name = lower_case(without_port(header));
  if (name.empty()) return false;
  return is_address(name) || name == "localhost" || name == lower_case(host) ||
         name == lower_case(host_name());
}

void serve_runs(const LiveRuns& runs, const std::string& host, int port) {
  httplib::Server server;
  // The library's own options would let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_payload_max_length(1 << 16);
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  check_hosts(server, host);
  add_routes(server, runs);
  const int bound = port == 0                         ? server.bind_to_any_port(host)
                    : server.bind_to_port(host, port) ? port
                                                      : -1;
  if (bound <= 0) {
    throw UserError(
        "cannot listen at {} port {}: it is taken, or not an address of this machine; choose "
        "another with --port or --host",
        host, port);
  }
  const bool v6 = host.find(':') != std::string::npos;
  fmt::print("http://{}{}{}:{}/ shows the runs; Ctrl-C ends it\n", v6 ? "[" : "", host,
             v6 ? "]" : "", bound);
  std::fflush(stdout);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, [](int) { ::_exit(0); });
  server.listen_after_bind();
}

}  // namespace nsvq
