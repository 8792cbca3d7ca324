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

/// The settings that the chosen quantizer would refuse, each with the value that it takes. What
/// becomes of them is decided by where they were set (SettingsReader::finish, docs/quantizers.md).
std::vector<Unusable> unusable_settings(const TokenizerConfig& config);

/// Throws UserError when settings that are valid one by one contradict each other.
void check_settings(const TokenizerConfig& config);

/// Whether a run starts with the whole quantizer of the model that train.init_from names, beside
/// its encoder and decoder.
bool keeps_quantizer(const TokenizerConfig& config);
/// Whether a setting is one of those that decide which tensors a tokenizer has and what their
/// numbers mean.
bool decides_tensors(const std::string& key);
/// Throws UserError if a setting that has to be equal differs between the run and `there`, a model
/// called `file`: what its networks and, if it is kept, its quantizer are.
void require_fitting_start(TokenizerConfig here, TokenizerConfig there, const std::string& file);
/// The settings of the model that train.init_from names, `there`, which hold for a run where nobody
/// sets them, as "key=value": model.* and, where its quantizer is kept, quantizer.* and data.size.
std::vector<std::string> settings_of_start(const TokenizerConfig& here, TokenizerConfig there);

/// The settings that have an effect on the result and differ, each as "key (a here, b there)".
std::vector<std::string> essential_differences(const TokenizerConfig& here,
                                               const TokenizerConfig& there);

/// Every key with type, default, range and meaning, and the defaults that depend on the quantizer,
/// as text for `nsvq config --reference`.
std::string config_reference();

}  // namespace nsvq
