#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>

namespace nsvq {

/// How often a command that failed is run again, after pauses of which each is twice the one
/// before.
struct Retries {
  int64_t times = 3;
  std::chrono::milliseconds first_pause{500};
};

/// Calls `work` until it throws no CommandFailure (nsvq/io/formats/piped_tar.h) or a stop is
/// requested. The last failure becomes a RunError.
void retry_command(const Retries& retries, const std::stop_token& stop,
                   const std::function<void()>& work);

}  // namespace nsvq
