#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsvq/recipe/schedule.h"

namespace nsvq {

/// When a phase ends.
enum class PhaseEnd {
  freeze,  ///< when the schedule's freeze criterion is met
  warmup,  ///< after schedule.warmup_epochs
  budget,  ///< after schedule.stage2_epochs, or at the end of the run
  never,   ///< at the end of the run
};

/// A phase of training as data: what is trained, with which loss terms, and when it ends.
struct Phase {
  std::string name;
  bool train_encoder;  ///< if false, the encoder is frozen
  /// If false, the quantizer is frozen: it hands on what it decodes tokens to, and has no loss.
  bool train_quantizer;
  bool commitment;  ///< beta |z_e - sg z_q|^2, meaningful only while the encoder trains
  /// A method's own terms for its codes, such as the NS loss (QuantizerStep has the same name).
  bool extra_codebook_terms;
  bool adversarial;  ///< the discriminator trains, and the generator against it
  bool ramp;         ///< adversarial terms ramp up from 0 over schedule.ramp_epochs
  bool replacement;  ///< unused codes are replaced
  PhaseEnd end;
};

/// Looks up "stage1", "warmup", "stage2" or "decoder"; throws UserError for any other name.
const Phase& phase_by_name(const std::string& name);

/// Factor in [0, 1] of the adversarial terms in step `step` of a phase, counted from 0.
double adversarial_factor(const Phase& phase, int64_t step, double ramp_steps);

/// The reason to freeze the encoder after epoch `commitment.size()` of the schedule, nullopt if it
/// stays trainable. `commitment` is the commitment loss of each epoch so far.
std::optional<std::string> freeze_reason(const ScheduleConfig& schedule,
                                         const std::vector<double>& commitment);

/// The paper's plateau criterion: the minimum of the last `patience` values is not below the
/// minimum of the values before them. NaN counts as no improvement.
bool on_plateau(const std::vector<double>& commitment, int64_t patience);

/// The values in which a plateau is sought: these, or their running means by schedule.smoothing.
std::vector<double> watched_commitment(const ScheduleConfig& schedule,
                                       std::vector<double> commitment);

/// Running means m <- decay * m + (1 - decay) * value; NaN leaves the mean as it is.
std::vector<double> smoothed(std::vector<double> values, double decay);

}  // namespace nsvq
