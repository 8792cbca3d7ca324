#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/config.h"

namespace nsvq {

/// When a phase is over.
enum class PhaseEnd {
  freeze,  ///< when the freeze criterion of the schedule holds
  warmup,  ///< after schedule.warmup_epochs
  budget,  ///< after schedule.stage2_epochs, or with the run
};

/// A phase of training as data: what trains, on which terms, with what upkeep, until when.
struct Phase {
  std::string name;
  bool train_encoder;  ///< otherwise the encoder is frozen
  bool commitment;     ///< beta |z - sg(c)|^2, of use only while the encoder trains
  bool ns_loss;        ///< the quantizer's terms for codes that did not win
  bool adversarial;    ///< the discriminator trains, and the generator against it
  bool ramp;           ///< the adversarial terms rise from nothing over schedule.ramp_epochs
  bool replacement;    ///< dead codes are overwritten at the end of each epoch
  PhaseEnd end;
};

/// The phase called `name`: "stage1", "warmup" or "stage2".
const Phase& phase_by_name(const std::string& name);

/// Share of the adversarial terms in step `step` of a phase, the first being 0.
double adversarial_factor(const Phase& phase, int64_t step, double ramp_steps);

/// Why the encoder is to be frozen now, after epoch `commitment.size()`, or nothing. `commitment`
/// is the mean commitment loss of each epoch so far.
std::optional<std::string> freeze_reason(const ScheduleConfig& schedule,
                                         const std::vector<double>& commitment);

/// The paper's plateau: the least of the last `patience` values is not below the least before them.
/// NaN counts as no improvement.
bool on_plateau(const std::vector<double>& commitment, int64_t patience);

}  // namespace nsvq
