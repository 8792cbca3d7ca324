#include "nsvq/data/sources/broken_log.h"

#include "nsvq/core/log.h"

namespace nsvq {

void BrokenLog::report(int64_t image, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (known_.size() > most_named || !known_.insert(image).second) return;
  if (known_.size() <= most_named) {
    log("skipping a broken image: {}", why);
  } else {
    log("more than {} images are broken; the others are skipped without a line each", most_named);
  }
}

}  // namespace nsvq
