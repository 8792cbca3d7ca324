#include "nsvq/core/progress.h"

#include <fmt/format.h>
#include <exception>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nsvq/core/log.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr double redraw_seconds = 0.1;
constexpr int widest_bar = 30;
constexpr int narrowest_bar = 5;

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

// Terminal columns of UTF-8 text, counting one for each character.
int columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string cut(std::string_view text, int limit) {
  size_t end = 0;
  for (int used = 0; end < text.size(); ++end) {
    if (starts_character(text[end]) && used++ == limit) break;
  }
  return std::string(text.substr(0, end));
}

std::string bar(double fraction, int width) {
  const int full = static_cast<int>(fraction * width);
  return fmt::format("[{:#<{}}{:-<{}}]", "", full, "", width - full);
}

std::string format_rate(double rate) {
  return rate < 10 ? fmt::format("{:.2f}", rate) : fmt::format("{:.0f}", rate);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds < 1e9)) return "?";
  const auto whole = int64_t{std::lround(std::max(0.0, seconds))};
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours == 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
}

Progress::Progress(std::string_view title, int64_t total, std::string_view unit,
                   double quiet_seconds, int64_t resumed, Now now)
    : title_(printable(title)),
      unit_(printable(unit)),
      total_(total),
      done_(resumed),
      resumed_(resumed),
      quiet_seconds_(quiet_seconds),
      terminal_(stderr_is_terminal()),
      now_(std::move(now)),
      start_(now_()),
      last_draw_(start_) {
  if (terminal_) draw(false);
}

Progress::~Progress() {
  if (std::uncaught_exceptions() == 0) {
    finish();
  } else if (terminal_) {  // unfinished because of an error: leave only the error's line
    clear_status();
  }
}

double Progress::seconds_since(std::chrono::steady_clock::time_point start) const {
  return std::chrono::duration<double>(now_() - start).count();
}

void Progress::update(int64_t done, std::string_view note) {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  done_ = done;
  note_ = printable(note);
  if (seconds_since(last_draw_) >= (terminal_ ? redraw_seconds : quiet_seconds_)) draw(false);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (finished_) return;
  finished_ = true;
  draw(true);
}

void Progress::draw(bool last) {
  last_draw_ = now_();
  if (!terminal_) return log_line(line(last, 0));
  // One column is left free, because some terminals wrap after a character in the last column.
  std::string text = line(last, std::max(1, stderr_width() - 1));
  if (!last) return show_status(std::move(text));
  clear_status();
  log_line(text);
}

// Width 0 gives a line for a log file: no bar, no length limit.
std::string Progress::line(bool last, int width) const {
  if (total_ > 0 && resumed_ >= total_) {
    const auto text =
        fmt::format("{} {}/{} {}: complete already, nothing to do", title_, done_, total_, unit_);
    return width == 0 ? text : cut(text, width);
  }
  const double elapsed = seconds_since(start_);
  const double rate = elapsed > 0 ? static_cast<double>(done_ - resumed_) / elapsed : 0;
  const double fraction =
      total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0)
                 : 1.0;
  const auto left = static_cast<double>(std::max<int64_t>(0, total_ - done_));

  // Rounded down, so that 100% means done.
  std::string tail = fmt::format("{}/{} {:3}%  {} {}/s", done_, total_,
                                 static_cast<int>(fraction * 100), format_rate(rate), unit_);
  if (last) {
    tail += "  in " + format_duration(elapsed);
  } else {
    tail += "  ETA " + (rate > 0 ? format_duration(left / rate) : left > 0 ? "?" : "0:00");
  }
  if (!note_.empty()) tail += "  " + note_;

  std::string head = title_ + " ";
  if (width == 0) return head + tail;
  // The bar gets the columns that the text leaves and is dropped if they are too few.
  const int room = width - columns(head) - columns(tail) - 3;
  if (room >= narrowest_bar) head += bar(fraction, std::min(room, widest_bar)) + " ";
  return cut(head + tail, width);
}

}  // namespace nsvq
