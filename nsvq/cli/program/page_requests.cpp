#include "nsvq/cli/program/page_requests.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>

#include <array>
#include <optional>

#include "nsvq/core/environment.h"
#include "nsvq/core/lower_case.h"
#include "nsvq/core/text.h"
#include "nsvq/report/page.h"
#include "nsvq/report/page_data.h"
#include "nsvq/report/run_catalog.h"

namespace nsvq {

namespace {

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

std::string live_page(const RunCatalog& runs) {
  const auto name = run_name(runs.folder());  // "." has one
  const auto title = name.empty() ? runs.folder().string() : name;
  return html_page(empty_page(title, PageKind::live), /*reload=*/false);
}

void answer(httplib::Response& response, const std::optional<std::string>& json) {
  if (json) return response.set_content(*json, "application/json");
  response.status = 404;
  response.set_content("no such run\n", "text/plain");
}

void add_routes(httplib::Server& server, RunCatalog& runs) {
  using httplib::Request;
  using httplib::Response;
  server.Get("/", [&](const Request&, Response& response) {
    response.set_content(live_page(runs), "text/html; charset=utf-8");
  });
  server.Get("/runs", [&](const Request&, Response& response) { answer(response, runs.list()); });
  server.Get("/run", [&](const Request& request, Response& response) {
    answer(response, runs.run(request.get_param_value("run")));
  });
  server.Get("/codes", [&](const Request& request, Response& response) {
    answer(response, runs.codes(request.get_param_value("run")));
  });
  server.Get("/picture", [&](const Request& request, Response& response) {
    const auto epoch = parse_decimal(request.get_param_value("epoch"));
    const auto png =
        epoch ? runs.picture(request.get_param_value("run"), static_cast<int64_t>(*epoch))
              : std::nullopt;
    if (!png) return answer(response, {});
    response.set_content(reinterpret_cast<const char*>(png->data()), png->size(), "image/png");
  });
}

/// The library compresses by Brotli at its highest level where a browser accepts it: a second of
/// computing for 300 kB, for which gzip takes milliseconds. It has no setting for that: it goes by
/// the header of the request.
void offer_gzip_only(const httplib::Request& request) {
  auto& headers = const_cast<httplib::Request&>(request).headers;  // the library's, not constant
  const bool gzip = request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
  headers.erase("Accept-Encoding");
  if (gzip) headers.emplace("Accept-Encoding", "gzip");
}

void guard_requests(httplib::Server& server, const std::string& host) {
  using Handled = httplib::Server::HandlerResponse;
  server.set_pre_routing_handler([host](const auto& request, auto& response) {
    const auto refuse = [&](int status, const char* text) {
      response.status = status;
      response.set_content(text, "text/plain");
      return Handled::Handled;
    };
    if (request.method != "GET" && request.method != "HEAD")
      return refuse(405, "this server is read-only\n");
    if (!is_own_host(request.get_header_value("Host"), host))
      return refuse(403, "this server answers by its address, not by this name\n");
    // Many parts of one page, which a short request may ask for, take any amount of memory.
    if (request.has_header("Range")) return refuse(416, "this server sends whole pages\n");
    offer_gzip_only(request);
    return Handled::Unhandled;
  });
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"X-Frame-Options", "DENY"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_exception_handler([](const auto&, auto& response, std::exception_ptr) {
    response.status = 500;
    response.set_content("the run cannot be read\n", "text/plain");
  });
}

}  // namespace

bool is_own_host(const std::string& header, const std::string& host) {
  const auto name = lower_case(without_port(header));
  if (name.empty()) return false;
  return is_address(name) || name == "localhost" || name == lower_case(host) ||
         name == lower_case(host_name());
}

void answer_page_requests(httplib::Server& server, RunCatalog& runs, const std::string& host) {
  server.set_payload_max_length(1 << 16);
  guard_requests(server, host);
  add_routes(server, runs);
}

}  // namespace nsvq
