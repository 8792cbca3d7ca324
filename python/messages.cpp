// What the operators tell a user of Python (nsvq/core/messages.h).
#include "nsvq/core/messages.h"

#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>

namespace nsvq {

void log_line(std::string_view line) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void throw_user_error(const std::string& line) {
  TORCH_CHECK_VALUE(false, line);
  std::abort();  // not reached: TORCH_CHECK_VALUE has thrown
}

}  // namespace nsvq
