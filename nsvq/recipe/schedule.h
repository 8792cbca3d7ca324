#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings schedule.*: the phases of training a tokenizer, and when the encoder freezes.
struct ScheduleConfig {
  std::vector<std::string> phases = {"stage1", "warmup", "stage2"};
  int64_t epoch_steps = 0;
  std::string freeze = "plateau";
  std::string commitment = "train";
  double smoothing = 0;
  int64_t patience = 10;
  int64_t freeze_epoch = 0;
  int64_t earliest_epoch = 0;
  int64_t latest_epoch = 0;
  int64_t warmup_epochs = 3;
  int64_t stage2_epochs = 0;
  double ramp_epochs = 2;
  std::string refit = "none";
};

std::vector<Option> schedule_options(ScheduleConfig& schedule);

/// Throws UserError for settings that contradict each other. `from_model`: the run starts with a
/// model that was trained elsewhere (train.init_from).
void check_schedule(const ScheduleConfig& schedule, bool from_model = false);

/// Whether one of the phases trains the encoder.
bool trains_encoder(const ScheduleConfig& schedule);
/// Whether the decoder alone trains from the start.
bool begins_with_decoder(const ScheduleConfig& schedule);

/// Whether a run would wait for a plateau of a commitment loss that its quantizer does not have.
bool waits_for_no_plateau(const ScheduleConfig& schedule, const QuantizerConfig& quantizer);
/// Throws UserError where it would. Checked when training begins: models may be stored with such
/// settings.
void check_freeze(const ScheduleConfig& schedule, const QuantizerConfig& quantizer);

}  // namespace nsvq
