#pragma once

#include <cerrno>

namespace nsvq {

/// Makes a system call, and repeats it while a signal interrupts it. Network file systems let
/// signals interrupt calls that never are on a local disk.
template <typename Call>
auto retry_interrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace nsvq
