#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/core/options.h"

namespace nsvq {

namespace {

void check_model(const Config& config) {
  const int64_t stride = config.model.stride(), size = config.data.size;
  const auto levels = static_cast<int64_t>(config.model.multipliers.size());
  if (size % stride != 0) {
    throw UserError(
        "data.size {} is not a multiple of {}, the stride of {} levels (model.multipliers)", size,
        stride, levels);
  }
  for (const int64_t level : config.model.attention) {
    if (level < levels) continue;
    throw UserError("model.attention names level {}, but model.multipliers has levels 0..{}", level,
                    levels - 1);
  }
}

void check_schedule(const ScheduleConfig& schedule) {
  const auto& phases = schedule.phases;
  for (auto phase = phases.begin(); phase != phases.end(); ++phase) {
    if (std::find(phases.begin(), phase, *phase) == phase) continue;
    throw UserError("schedule.phases names {} twice", *phase);
  }
  if (schedule.freeze == "epoch" && schedule.freeze_epoch < 1) {
    throw UserError("schedule.freeze is epoch, so schedule.freeze_epoch must name one, from 1 on");
  }
  const auto stage2 = std::find(phases.begin(), phases.end(), "stage2");
  if (schedule.stage2_epochs == 0 && stage2 != phases.end() && stage2 + 1 != phases.end()) {
    throw UserError(
        "schedule.phases: stage2 lasts to the end of the budget, so {} is not reached; set "
        "schedule.stage2_epochs or name stage2 last",
        *(stage2 + 1));
  }
  const auto stage1 = std::find(phases.begin(), phases.end(), "stage1");
  if (schedule.freeze == "never" && stage1 != phases.end() && stage1 + 1 != phases.end()) {
    throw UserError(
        "schedule.freeze is never, so stage1 does not end and {} is not reached; use plateau or "
        "epoch, or "
        "end schedule.phases with stage1",
        *(stage1 + 1));
  }
}

}  // namespace

void check(const Config& config) {
  check_model(config);
  check_schedule(config.schedule);
  if (config.loss.l1 == 0 && config.loss.l2 == 0) {
    throw UserError(
        "loss.l1 and loss.l2 are both 0, so nothing asks for reconstruction; set one above 0");
  }
}

std::vector<std::string> essential_differences(const Config& here, const Config& there) {
  auto ours = here, theirs = there;  // the table binds to what it could change
  const auto our_options = options(ours), their_options = options(theirs);
  std::vector<std::string> differences;
  for (size_t i = 0; i < our_options.size(); ++i) {
    const auto a = our_options[i].value(), b = their_options[i].value();
    if (!our_options[i].essential || a == b) continue;
    differences.push_back(fmt::format("{} ({} here, {} there)", our_options[i].key, a, b));
  }
  return differences;
}

}  // namespace nsvq
