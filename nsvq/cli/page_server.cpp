#include "nsvq/cli/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/report/page.h"
#include "nsvq/report/page_data.h"

namespace nsvq {

namespace {

constexpr size_t kThreads = 64;

bool is_address(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return ::inet_pton(AF_INET, text.c_str(), ignored.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), ignored.data()) == 1;
}

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
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
  return html_page(empty_page(runs.folder().string(), PageKind::live), /*reload=*/false);
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

/// The port of the socket's own end; 0 for what is no socket of the internet.
int own_port(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

/// Ends the connections to a port: the library waits for each, however slowly its client writes.
void end_connections(int port) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto descriptor = parse_decimal(entry.path().filename().string());
    if (descriptor && own_port(static_cast<int>(*descriptor)) == port)
      ::shutdown(static_cast<int>(*descriptor), SHUT_RDWR);
  }
}

}  // namespace

bool is_own_host(const std::string& header, const std::string& host) {
  const auto name = without_port(header);
  if (name.empty()) return false;
  return is_address(name) || name == "localhost" || name == host || name == machine_name();
}

struct PageServer::Parts {
  httplib::Server server;
  std::string host;
  int port = 0;
  std::atomic<bool> ended = false;
  std::thread answers;
};

PageServer::PageServer(RunCatalog& runs, const std::string& host, int port)
    : parts_(std::make_unique<Parts>()) {
  auto& server = parts_->server;
  // The library's own would let two servers share a port.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_keep_alive_timeout(1);  // a connection without requests holds up the end
  server.set_payload_max_length(1 << 16);
  // Connections that send nothing, or little by little, hold a thread each.
  server.set_read_timeout(2);
  server.set_write_timeout(5);
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  guard_requests(server, host);
  add_routes(server, runs);
  parts_->host = host;
  parts_->port = port;
  if (port == 0) parts_->port = server.bind_to_any_port(host);
  if (parts_->port <= 0 || (port > 0 && !server.bind_to_port(host, port))) {
    throw UserError(
        "cannot listen at {} port {}: it is taken, or not an address of this machine; choose "
        "another with --port or --host",
        host, port);
  }
  parts_->answers = std::thread([parts = parts_.get()] {
    parts->server.listen_after_bind();
    parts->ended = true;
  });
  // One that does not run yet would not hear that it has to stop.
  while (!server.is_running() && !parts_->ended) std::this_thread::yield();
}

PageServer::~PageServer() {
  parts_->server.stop();
  while (!parts_->ended) {
    end_connections(parts_->port);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  parts_->answers.join();
}

std::string PageServer::address() const {
  const bool v6 = parts_->host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/", v6 ? "[" : "", parts_->host, v6 ? "]" : "", parts_->port);
}

}  // namespace nsvq
