#include "nsvq/core/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "nsvq/core/interrupt.h"
#include "nsvq/core/text.h"

namespace nsvq {

namespace {

constexpr std::string_view clear_to_end = "\r\x1b[K";

struct Status {
  std::mutex mutex;
  bool quiet = false;
  std::string line;  // empty if no status line is shown
};

Status& status() {
  static Status status;
  return status;
}

// Errors are ignored: a log that cannot be written must not end a run. The caller holds the mutex.
void write_stderr(std::string_view text) {
  if (status().quiet) return;
  while (!text.empty()) {
    const ssize_t written =
        retry_interrupted([&] { return ::write(STDERR_FILENO, text.data(), text.size()); });
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

bool stderr_is_terminal() {
  const char* name = std::getenv("TERM");
  return isatty(STDERR_FILENO) && !(name && std::string_view(name) == "dumb");
}

int stderr_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void set_quiet(bool quiet) {
  const std::lock_guard lock(status().mutex);
  status().quiet = quiet;
}

void log_line(std::string_view line) {
  Status& now = status();
  const std::lock_guard lock(now.mutex);
  std::string text;
  if (!now.line.empty()) text += clear_to_end;
  text += printable(line);  // names of files may have any bytes
  text += '\n';
  text += now.line;
  write_stderr(text);
}

void show_status(std::string line) {
  Status& now = status();
  const std::lock_guard lock(now.mutex);
  now.line = std::move(line);
  write_stderr(std::string(clear_to_end) + now.line);
}

void clear_status() {
  Status& now = status();
  const std::lock_guard lock(now.mutex);
  if (now.line.empty()) return;
  now.line.clear();
  write_stderr(clear_to_end);
}

}  // namespace nsvq
