#include "nsvq/ops/common/fast_path.h"

#include <c10/util/StringUtil.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "nsvq/core/messages.h"

namespace nsvq {

bool takes_fast_path(const char* op, const std::string& reason) {
  if (reason.empty()) return true;
  static const bool wanted = std::getenv("NSVQ_DEBUG") != nullptr;
  if (!wanted) return false;
  static std::mutex mutex;
  static std::set<std::string> said;
  const auto line = c10::str(op, ": without its fast kernel: ", reason);
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) log_line(line);
  return false;
}

}  // namespace nsvq
