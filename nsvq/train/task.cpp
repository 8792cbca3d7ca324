#include "nsvq/train/task.h"

#include "nsvq/train/loop.h"

namespace nsvq {

void Task::end_epoch(Loop& loop, bool /*whole*/) { loop.log_epoch({}, ""); }

std::string Task::describe_evaluation(const std::map<std::string, double>& values) const {
  return describe_scalars(values);
}

}  // namespace nsvq
