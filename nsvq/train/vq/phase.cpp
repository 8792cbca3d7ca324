#include "nsvq/train/vq/phase.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"

namespace nsvq {

/// z_e = E(x), z_q its nearest code, |.|^2 the mean over elements, sg stops gradients; lambda are
/// the weights loss.* and adversarial.*. The first term of L_vq is in every phase that trains the
/// codes.
const Phase& phase_by_name(const std::string& name) {
  static const std::vector<Phase> phases = {
      // L = L_rec + lambda_perc L_perc + lambda_adv L_adv + lambda_vq L_vq
      // L_vq = |sg z_e - z_q|^2 + beta |z_e - sg z_q|^2 + alpha L_NS
      {.name = "stage1",
       .train_encoder = true,
       .train_quantizer = true,
       .commitment = true,
       .extra_codebook_terms = true,
       .adversarial = true,
       .ramp = false,
       .replacement = true,
       .end = PhaseEnd::freeze},
      // L = L_rec + lambda_perc L_perc + lambda_vq L_vq
      // L_vq = |sg z_e - z_q|^2
      {.name = "warmup",
       .train_encoder = false,
       .train_quantizer = true,
       .commitment = false,
       .extra_codebook_terms = false,
       .adversarial = false,
       .ramp = false,
       .replacement = false,
       .end = PhaseEnd::warmup},
      // L = L_rec + lambda_perc L_perc + lambda_adv L_adv + lambda_vq L_vq, L_adv ramped up
      // L_vq = |sg z_e - z_q|^2
      {.name = "stage2",
       .train_encoder = false,
       .train_quantizer = true,
       .commitment = false,
       .extra_codebook_terms = false,
       .adversarial = true,
       .ramp = true,
       .replacement = false,
       .end = PhaseEnd::budget},
      // L = L_rec + lambda_perc L_perc + lambda_adv L_adv, L_adv ramped up
      {.name = "decoder",
       .train_encoder = false,
       .train_quantizer = false,
       .commitment = false,
       .extra_codebook_terms = false,
       .adversarial = true,
       .ramp = true,
       .replacement = false,
       .end = PhaseEnd::never},
  };
  return find_named(phases, "phase", name, "schedule.phases");
}

namespace {

/// The minimum, ignoring NaN; infinity for an empty range.
double least(std::vector<double>::const_iterator begin, std::vector<double>::const_iterator end) {
  double result = std::numeric_limits<double>::infinity();
  for (auto it = begin; it != end; ++it) {
    if (!std::isnan(*it)) result = std::min(result, *it);
  }
  return result;
}

}  // namespace

double adversarial_factor(const Phase& phase, int64_t step, double ramp_steps) {
  if (!phase.adversarial) return 0;
  if (!phase.ramp || ramp_steps <= 0) return 1;
  return std::min(1.0, static_cast<double>(step + 1) / ramp_steps);
}

bool on_plateau(const std::vector<double>& commitment, int64_t patience) {
  if (static_cast<int64_t>(commitment.size()) <= patience) return false;
  const auto split = commitment.end() - patience;
  return least(split, commitment.end()) >= least(commitment.begin(), split);
}

std::vector<double> smoothed(std::vector<double> values, double decay) {
  double mean = NAN;
  for (auto& value : values) {
    if (!std::isnan(value)) {
      mean = std::isnan(mean) ? value : decay * mean + (1 - decay) * value;
    }
    value = mean;
  }
  return values;
}

std::vector<double> watched_commitment(const ScheduleConfig& schedule,
                                       std::vector<double> commitment) {
  return schedule.smoothing > 0 ? smoothed(std::move(commitment), schedule.smoothing) : commitment;
}

namespace {

/// Early epochs, in which latents still grow, do not count.
std::vector<double> compared(const ScheduleConfig& schedule, std::vector<double> commitment) {
  commitment = watched_commitment(schedule, std::move(commitment));
  const int64_t ignored = std::max<int64_t>(0, schedule.earliest_epoch - schedule.patience - 1);
  commitment.erase(commitment.begin(),
                   commitment.begin() + std::min(ignored, std::ssize(commitment)));
  return commitment;
}

/// Names what was compared, so that the log tells why the encoder was frozen.
std::string plateau_reason(const ScheduleConfig& schedule, const std::vector<double>& values) {
  const auto split = values.end() - schedule.patience;
  return fmt::format("{}{}commitment loss has not decreased for {} (lowest {:.6g}, before {:.6g})",
                     schedule.smoothing > 0 ? "smoothed " : "",
                     schedule.commitment == "validation" ? "validation " : "",
                     count_of(schedule.patience, "epoch"), least(split, values.end()),
                     least(values.begin(), split));
}

}  // namespace

std::optional<std::string> freeze_reason(const ScheduleConfig& schedule,
                                         const std::vector<double>& commitment) {
  const auto epoch = static_cast<int64_t>(commitment.size());
  if (schedule.freeze == "plateau") {
    const auto values = compared(schedule, commitment);
    if (on_plateau(values, schedule.patience)) return plateau_reason(schedule, values);
  }
  if (schedule.freeze == "epoch" && epoch >= schedule.freeze_epoch) {
    return fmt::format("schedule.freeze_epoch is {}", schedule.freeze_epoch);
  }
  if (schedule.freeze == "plateau" && schedule.latest_epoch > 0 && epoch >= schedule.latest_epoch) {
    return fmt::format("schedule.latest_epoch is {}", schedule.latest_epoch);
  }
  return std::nullopt;
}

}  // namespace nsvq
