#include "nsvq/data/streams/retry.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/io/formats/piped_tar.h"

namespace nsvq {

namespace {

void pause_unless_stopped(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

void retry_command(const Retries& retries, const std::stop_token& stop,
                   const std::function<void()>& work) {
  constexpr std::chrono::milliseconds longest{30'000};
  auto pause = retries.first_pause;
  for (int64_t failures = 1;; ++failures) {
    try {
      return work();
    } catch (const CommandFailure& failure) {
      if (stop.stop_requested()) return;
      if (failures > retries.times) throw RunError("{}", failure.what());
      log("{}; running it again ({} of {})", failure.what(), failures, retries.times);
    }
    pause_unless_stopped(pause, stop);
    if (stop.stop_requested()) return;
    pause = std::min(2 * pause, longest);
  }
}

}  // namespace nsvq
