#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace nsvq {

/// Seconds as 0:07, 3:05 or 1:02:03.
std::string format_duration(double seconds);

/// Progress of a known number of steps on standard error: a bar with rate and time left that
/// redraws itself on a terminal, a plain line now and then (at most every `quiet_seconds`) in a
/// log. Calls may come from any thread.
class Progress {
 public:
  /// Tells the time; tests bring a clock of their own.
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// `resumed` of the total were done before this run: they do not count in the rate.
  Progress(std::string title, int64_t total, std::string unit, double quiet_seconds = 30,
           int64_t resumed = 0, Now now = std::chrono::steady_clock::now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of the total are done; `note` is a short text shown behind the bar (a loss, a phase).
  void update(int64_t done, std::string_view note = {});
  /// Leaves the finished line standing.
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
