#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsvq/quantizers/quantizer_config.h"
#include "nsvq/settings/option.h"

namespace nsvq {

/// Settings checkpoint.*: when checkpoints are written and how many are kept.
struct CheckpointConfig {
  int64_t every_steps = 0;
  int64_t keep = 3;
  std::string keep_best;
  std::string on_error = "stop";
};

std::vector<Option> checkpoint_options(CheckpointConfig& checkpoint);

/// Throws UserError for a checkpoint.keep_best that is not measured: not among `metrics`, which
/// train.metrics names, or a figure of tokens where the quantizer has none.
void check_checkpoint(const CheckpointConfig& checkpoint, const std::vector<std::string>& metrics,
                      const QuantizerConfig& quantizer);

}  // namespace nsvq
