#include "nsvq/train/steps/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace nsvq {

double lr_factor(const LrScheduleConfig& schedule, int64_t step, int64_t steps) {
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  const auto at = static_cast<double>(step);
  if (at < warmup) return (at + 1) / warmup;
  if (schedule.shape == "constant") return 1;
  const auto end = static_cast<double>(schedule.steps > 0 ? schedule.steps : steps);
  const double start = std::max(warmup, end * (1 - schedule.fall_share));
  const double progress = end > start ? std::clamp((at - start) / (end - start), 0.0, 1.0) : 1;
  const double left =
      schedule.shape == "linear" ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return schedule.final_share + (1 - schedule.final_share) * left;
}

std::string note_on_schedule(const std::string& section, const LrScheduleConfig& schedule,
                             int64_t steps) {
  if (schedule.shape == "same" || steps <= 0) return "";
  if (schedule.warmup_steps >= steps) {
    return fmt::format("{}.warmup_steps is {} of {} steps, so the full rate is not reached",
                       section, schedule.warmup_steps, steps);
  }
  if (schedule.shape == "constant" || schedule.steps == 0) return "";
  if (schedule.steps < steps && schedule.final_share == 0) {
    return fmt::format(
        "{0}.steps is {1} of {2} steps and {0}.final_share 0, so the rate is 0 from "
        "step {1} on",
        section, schedule.steps, steps);
  }
  if (schedule.steps <= steps) return "";
  return fmt::format(
      "{}.steps is {}, more than the {} steps of the run, so the final rate is not "
      "reached",
      section, schedule.steps, steps);
}

bool is_constant(const LrScheduleConfig& schedule) {
  return schedule.shape == "constant" && schedule.warmup_steps == 0;
}

}  // namespace nsvq
