#include "nsvq/cli/program/connections.h"

#include <linux/tcp.h>  // the C library's tcp_info does not count bytes
#include <netinet/in.h>
#include <sys/socket.h>

#include <filesystem>
#include <system_error>

#include "nsvq/core/text.h"

namespace nsvq {

namespace {

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

/// Bytes that have come over a connection; 0 where the system does not tell.
uint64_t received(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

template <typename Is>
void end_those(int port, const Is& is_one) {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const auto number = parse_decimal(entry->path().filename().string());
    if (!number) continue;
    const auto descriptor = static_cast<int>(*number);
    if (own_port(descriptor) == port && is_one(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
  }
}

}  // namespace

void end_connections(int port) {
  end_those(port, [](int) { return true; });
}

void end_long_connections(int port, uint64_t most_bytes) {
  end_those(port, [&](int descriptor) {
    if (received(descriptor) <= most_bytes) return false;
    // Closing it then tells the client at once, which may wait for minutes to send more.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return true;
  });
}

}  // namespace nsvq
