#pragma once

#include <chrono>
#include <string>

namespace nsvq {

/// Where the time of epochs goes, in seconds. With few images what follows an epoch can take longer
/// than its steps, which does not show in their rate.
class EpochTimes {
 public:
  double evaluation = 0, samples = 0, checkpoints = 0;

  /// Once, when these have taken longer than all else of the `elapsed` seconds, the steps, and at
  /// least `kNoticeable`: a line that says so and names the settings. Otherwise empty.
  std::string advice(double elapsed);

  static constexpr double kNoticeable = 20;

 private:
  bool said_ = false;
};

/// Adds its own lifetime to a number of seconds.
class TimeGuard {
 public:
  explicit TimeGuard(double& seconds) : seconds_(seconds) {}
  TimeGuard(const TimeGuard&) = delete;
  TimeGuard& operator=(const TimeGuard&) = delete;
  ~TimeGuard() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace nsvq
