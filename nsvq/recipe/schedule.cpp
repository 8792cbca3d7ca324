#include "nsvq/recipe/schedule.h"

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/limits.h"

namespace nsvq {

std::vector<Option> schedule_options(ScheduleConfig& schedule) {
  return {
      {"schedule.phases", &schedule.phases, "phases in order",
       Range::list(1, 4, Range::one_of({"stage1", "warmup", "stage2", "decoder"}))},
      {"schedule.epoch_steps", &schedule.epoch_steps,
       "steps that count as an epoch in schedule.*; 0: a pass over the training images",
       Range::between(0, kMostEpochs)},
      {"schedule.freeze", &schedule.freeze, "when stage1 ends and the encoder freezes",
       Range::one_of({"plateau", "epoch", "never"})},
      {"schedule.commitment", &schedule.commitment,
       "plateau: commitment loss of the training steps, or of drift.images of data.val",
       Range::one_of({"train", "validation"})},
      {"schedule.smoothing", &schedule.smoothing,
       "plateau: decay of a running mean over the epochs' commitment losses; 0: none",
       Range::from_to_below(0, 1)},
      {"schedule.patience", &schedule.patience, "plateau: epochs without a lower commitment loss",
       Range::between(1, kMostEpochs)},
      {"schedule.freeze_epoch", &schedule.freeze_epoch,
       "freeze: epoch: freeze at the end of this epoch", Range::between(0, kMostEpochs)},
      {"schedule.earliest_epoch", &schedule.earliest_epoch,
       "plateau: freeze at the end of this epoch at the earliest; epochs more than patience before "
       "it do not count",
       Range::between(0, kMostEpochs)},
      {"schedule.latest_epoch", &schedule.latest_epoch,
       "plateau: freeze at the end of this epoch at the latest; 0: no limit",
       Range::between(0, kMostEpochs)},
      {"schedule.warmup_epochs", &schedule.warmup_epochs, "epochs of the warmup phase",
       Range::between(1, kMostEpochs)},
      {"schedule.stage2_epochs", &schedule.stage2_epochs,
       "epochs of stage2; 0: what is left of the budget", Range::between(0, kMostEpochs)},
      {"schedule.ramp_epochs", &schedule.ramp_epochs,
       "first epochs of stage2 and of decoder, over which the adversarial loss rises linearly to "
       "its weight",
       Range::between(0, kMostEpochs)},
      {"schedule.refit", &schedule.refit,
       "codes when the encoder freezes, or at the start where train.init_from brings it and no "
       "phase trains it: as they are, or k-means clusters of latents of training images",
       Range::one_of({"none", "kmeans"})},
  };
}

namespace {

/// Throws UserError where codes are to be fitted to an encoder that does not freeze.
void check_refit(const ScheduleConfig& schedule, bool from_model) {
  if (schedule.refit == "none" || (from_model && !trains_encoder(schedule))) return;
  const auto& phases = schedule.phases;
  const auto stage1 = std::find(phases.begin(), phases.end(), "stage1");
  if (stage1 == phases.end() || stage1 + 1 == phases.end()) {
    throw UserError("schedule.refit is {}, but no encoder freezes: in schedule.phases {} stage1",
                    schedule.refit, stage1 == phases.end() ? "there is no" : "nothing follows");
  }
  if (schedule.freeze == "never") {
    throw UserError("schedule.refit is {}, but no encoder freezes: schedule.freeze is never",
                    schedule.refit);
  }
}

/// Throws UserError where the phase that trains the decoder alone has nothing to decode, or is not
/// the last one.
void check_decoder_phase(const ScheduleConfig& schedule, bool from_model) {
  const auto& phases = schedule.phases;
  const auto decoder = std::find(phases.begin(), phases.end(), "decoder");
  if (decoder == phases.end()) return;
  if (decoder + 1 != phases.end()) {
    throw UserError(
        "schedule.phases: decoder lasts to the end of the run, so {} is not reached; "
        "name decoder last",
        *(decoder + 1));
  }
  if (phases.size() > 1 || from_model) return;
  throw UserError(
      "schedule.phases is [decoder], which trains no encoder and no codes; name the "
      "model that has them in train.init_from");
}

}  // namespace

bool trains_encoder(const ScheduleConfig& schedule) {
  const auto& phases = schedule.phases;
  return std::find(phases.begin(), phases.end(), "stage1") != phases.end();
}

bool begins_with_decoder(const ScheduleConfig& schedule) {
  return schedule.phases.front() == "decoder";
}

void check_schedule(const ScheduleConfig& schedule, bool from_model) {
  const auto& phases = schedule.phases;
  for (auto phase = phases.begin(); phase != phases.end(); ++phase) {
    if (std::find(phases.begin(), phase, *phase) == phase) continue;
    throw UserError("schedule.phases names {} twice", *phase);
  }
  if (schedule.freeze == "epoch" && schedule.freeze_epoch < 1) {
    throw UserError("schedule.freeze is epoch, so schedule.freeze_epoch must name one, from 1 on");
  }
  if (schedule.latest_epoch > 0 && schedule.earliest_epoch > schedule.latest_epoch) {
    throw UserError("schedule.earliest_epoch is {}, after schedule.latest_epoch {}",
                    schedule.earliest_epoch, schedule.latest_epoch);
  }
  const auto stage2 = std::find(phases.begin(), phases.end(), "stage2");
  if (schedule.stage2_epochs == 0 && stage2 != phases.end() && stage2 + 1 != phases.end()) {
    throw UserError(
        "schedule.phases: stage2 lasts to the end of the budget, so {} is not reached; set "
        "schedule.stage2_epochs or name stage2 last",
        *(stage2 + 1));
  }
  check_decoder_phase(schedule, from_model);
  check_refit(schedule, from_model);
}

bool waits_for_no_plateau(const ScheduleConfig& schedule, const QuantizerConfig& quantizer) {
  const auto& phases = schedule.phases;
  const auto stage1 = std::find(phases.begin(), phases.end(), "stage1");
  if (stage1 == phases.end() || stage1 + 1 == phases.end()) return false;
  return schedule.freeze == "plateau" && !quantizer_kind(quantizer.type).tokens;
}

void check_freeze(const ScheduleConfig& schedule, const QuantizerConfig& quantizer) {
  if (!waits_for_no_plateau(schedule, quantizer)) return;
  throw UserError(
      "schedule.freeze is plateau, but quantizer {} has no commitment loss to watch; set "
      "schedule.freeze=epoch and schedule.freeze_epoch, or schedule.phases=[stage1]",
      quantizer.type);
}

}  // namespace nsvq
