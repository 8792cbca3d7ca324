#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace nsvq {

/// Formats seconds as 0:07, 3:05 or 1:02:03.
std::string format_duration(double seconds);

/// Progress of a known number of steps on standard error: on a terminal a bar with rate and
/// remaining time, in a log file a plain line at most every `quiet_seconds`. Thread-safe.
class Progress {
 public:
  /// Returns the time; tests pass a clock of their own.
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// `resumed` of the total were done before this run and are excluded from the rate; where that
  /// is all of them, the line says so and has no rate.
  Progress(std::string_view title, int64_t total, std::string_view unit, double quiet_seconds = 30,
           int64_t resumed = 0, Now now = std::chrono::steady_clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done; `note` is a short text shown behind the bar (a loss, a phase).
  void update(int64_t done, std::string_view note = {});
  /// Prints the final line, which stays on the terminal.
  void finish();

 private:
  void draw(bool last);
  std::string line(bool last, int width) const;
  double seconds_since(std::chrono::steady_clock::time_point start) const;

  std::mutex mutex_;
  std::string title_, unit_, note_;
  int64_t total_, done_, resumed_;
  double quiet_seconds_;
  bool terminal_;
  bool finished_ = false;
  Now now_;
  std::chrono::steady_clock::time_point start_, last_draw_;
};

}  // namespace nsvq
