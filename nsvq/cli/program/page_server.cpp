#include "nsvq/cli/program/page_server.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "nsvq/cli/program/connections.h"
#include "nsvq/cli/program/page_requests.h"
#include "nsvq/core/error.h"

namespace nsvq {

namespace {

constexpr size_t kThreads = 64;
/// Of requests over one connection, of which the library takes five. It has no limit of its own:
/// headers without end would take all memory.
constexpr uint64_t kMostBytes = 1 << 20;

}  // namespace

struct PageServer::Parts {
  httplib::Server server;
  std::string host;
  int port = 0;
  std::atomic<bool> ended = false;
  std::thread answers;
  std::jthread limits;
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
  // Connections that send nothing, or little by little, hold a thread each.
  server.set_read_timeout(2);
  server.set_write_timeout(5);
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  answer_page_requests(server, runs, host);
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
  parts_->limits = std::jthread([bound = parts_->port](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      end_long_connections(bound, kMostBytes);
  });
}

PageServer::~PageServer() {
  parts_->server.stop();
  while (!parts_->ended) {
    // The library waits for each connection, however slowly its client writes.
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
