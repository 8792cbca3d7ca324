#include "nsvq/cli/output/reserved_stdout.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

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
