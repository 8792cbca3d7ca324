#include "nsvq/cli/flush_stdout.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "nsvq/core/error.h"

namespace nsvq {

void flush_stdout() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return;
  const int reason = errno;  // none where an earlier write failed
  std::clearerr(stdout);
  throw RunError("cannot write to standard output: {}", std::strerror(reason ? reason : EIO));
}

}  // namespace nsvq
