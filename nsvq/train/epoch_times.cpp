#include "nsvq/train/epoch_times.h"

#include <fmt/format.h>

namespace nsvq {

std::string EpochTimes::advice(double elapsed) {
  const double ends = evaluation + samples + checkpoints, steps = elapsed - ends;
  if (said_ || ends < kNoticeable || ends <= steps) return "";
  said_ = true;
  return fmt::format(
      "so far {:.0f} s went to steps, and after epochs {:.0f} s to checkpoints, {:.0f} s to "
      "evaluations and {:.0f} s to samples and the report; checkpoint.every_steps, "
      "train.eval_every and train.samples_every make them rarer",
      steps, checkpoints, evaluation, samples);
}

}  // namespace nsvq
