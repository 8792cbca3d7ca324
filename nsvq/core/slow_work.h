#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace nsvq {

/// Tells what work of unknown length is doing, once it has taken a while: on a terminal a status
/// line after a second, in a log file a line after ten seconds and then every thirty. The status
/// line goes when the work ends. For one thread.
class SlowWork {
 public:
  /// Returns the time; tests pass a clock of their own.
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  explicit SlowWork(Now now = std::chrono::steady_clock::now);
  ~SlowWork();
  SlowWork(const SlowWork&) = delete;
  SlowWork& operator=(const SlowWork&) = delete;

  /// `text` is asked only where its line is shown.
  void tell(const std::function<std::string()>& text);

 private:
  Now now_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace nsvq
