#pragma once

#include <string>
#include <vector>

#include "nsvq/losses/adversarial.h"
#include "nsvq/losses/loss.h"
#include "nsvq/nn/model_config.h"
#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/alarm.h"
#include "nsvq/recipe/drift.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/recipe/schedule.h"

namespace nsvq {

/// Every setting of a tokenizer's run. Each section stands in one header with its fields, rows and
/// checks.
struct TokenizerConfig : RunConfig {
  static constexpr auto kind = RunKind::tokenizer;
  ModelConfig model;
  QuantizerConfig quantizer;
  LossConfig loss;
  AdversarialConfig adversarial;
  ReplacementConfig replacement;
  ScheduleConfig schedule;
  DriftConfig drift;
  AlarmConfig alarm;
};

/// The table of all settings, bound to the fields of `config`.
OptionTable option_table(TokenizerConfig& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check_settings(const TokenizerConfig& config);

/// The settings that have an effect on the result and differ, each as "key (a here, b there)".
std::vector<std::string> essential_differences(const TokenizerConfig& here,
                                               const TokenizerConfig& there);

/// Every key with type, default, range and meaning, and the defaults that depend on the quantizer,
/// as text for `nsvq config --reference`.
std::string config_reference();

}  // namespace nsvq
