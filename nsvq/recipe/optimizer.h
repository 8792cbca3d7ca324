#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/settings/option.h"

namespace nsvq {

/// How a learning rate changes over a run.
struct LrScheduleConfig {
  std::string shape = "constant";
  int64_t warmup_steps = 0;
  int64_t steps = 0;
  double final_share = 0;
  double fall_share = 1;
};

/// Factors on the learning rate of each module.
struct LrScaleConfig {
  double encoder = 1;
  double decoder = 1;
  double quantizer = 1;
  double discriminator = 1;
};

/// Settings optimizer.*, and adversarial.schedule.* as the discriminator's schedule.
struct OptimizerConfig {
  double lr = 1e-4;
  double beta1 = 0.5;
  double beta2 = 0.9;
  double eps = 1e-8;
  double eps_quantizer = 0;  ///< 0: eps
  double weight_decay = 0;
  std::string decayed = "all";
  std::vector<std::string> undecayed;
  double clip_norm = 0;
  double ema_decay = 0.999;
  LrScaleConfig scale;
  LrScheduleConfig schedule;
  LrScheduleConfig discriminator_schedule = {.shape = "same"};
};

/// Rows of optimizer.*.
std::vector<Option> optimizer_options(OptimizerConfig& optimizer);
/// Rows of a learning-rate schedule; `what` is trained by it.
std::vector<Option> lr_schedule_options(const std::string& section, const std::string& what,
                                        LrScheduleConfig& schedule,
                                        const std::vector<std::string>& shapes);

/// Throws UserError where fp32 cannot hold the quantizer's eps.
void check_eps(const OptimizerConfig& optimizer);
/// Throws UserError for a warm-up longer than the schedule of a section.
void check_lr_schedule(const std::string& section, const LrScheduleConfig& schedule);

}  // namespace nsvq
