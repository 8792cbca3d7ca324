#include "nsvq/cli/output/stdout.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "nsvq/core/environment.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/io/files/file.h"

namespace nsvq {

namespace {

/// 0, or the reason why what was printed could not be written.
int flush_error() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return 0;
  const int reason = errno;  // none where an earlier write failed
  std::clearerr(stdout);
  return reason ? reason : EIO;
}

[[noreturn]] void fail_on_stdout(int reason) {
  throw RunError("cannot write to standard output: {}", std::strerror(reason));
}

/// Whether nobody reads standard output any more: the pipe or the terminal was closed.
bool is_reader_gone(int reason) {
  if (reason == EPIPE) return true;
  struct stat info {};
  return reason == EIO && ::fstat(STDOUT_FILENO, &info) == 0 && S_ISCHR(info.st_mode);
}

/// What could not be written is kept, and would be tried again when the program ends.
void drop_output() {
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (nowhere) ::dup2(nowhere.get(), STDOUT_FILENO);
}

}  // namespace

int stdout_width() {
  const auto asked = parse_decimal(environment_text("COLUMNS").value_or("")).value_or(0);
  if (asked > 0) return static_cast<int>(std::min<int64_t>(asked, INT16_MAX));
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void flush_stdout() {
  if (const int reason = flush_error()) fail_on_stdout(reason);
}

void print_last_words(const std::string& text) {
  flush_stdout();
  // A text larger than the buffer is written here, and the reason is this call's.
  errno = 0;
  int reason = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : errno;
  if (reason == 0) reason = flush_error();
  if (reason == 0) return;
  std::clearerr(stdout);
  if (!is_reader_gone(reason)) fail_on_stdout(reason);
  drop_output();
}

ReservedStdout::ReservedStdout(const std::string& option) {
  std::fflush(stdout);
  stdout_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (stdout_ < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw RunError("{}: standard output cannot be used", option);
  }
}

ReservedStdout::~ReservedStdout() { restore(); }

void ReservedStdout::restore() {
  if (stdout_ < 0) return;
  std::fflush(stdout);
  ::dup2(stdout_, STDOUT_FILENO);
  ::close(std::exchange(stdout_, -1));
}

void ReservedStdout::print(const std::string& text) {
  restore();
  fmt::print("{}", text);
}

}  // namespace nsvq
