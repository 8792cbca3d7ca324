#include "nsvq/core/slow_work.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/log.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstStatus(1'000), kNextStatus(100), kFirstLine(10'000), kNextLine(30'000);

}  // namespace

SlowWork::SlowWork(Now now)
    : now_(std::move(now)),
      terminal_(stderr_is_terminal()),
      next_(now_() + (terminal_ ? kFirstStatus : kFirstLine)) {}

SlowWork::~SlowWork() {
  if (shown_ && terminal_) clear_status();
}

void SlowWork::tell(const std::function<std::string()>& text) {
  const auto time = now_();
  if (time < next_) return;
  next_ = time + (terminal_ ? kNextStatus : kNextLine);
  shown_ = true;
  if (!terminal_) return log_line(text());
  // Counted in bytes, so that a line is rather too short than too long.
  show_status(printable(text()).substr(0, static_cast<size_t>(std::max(1, stderr_width() - 1))));
}

}  // namespace nsvq
