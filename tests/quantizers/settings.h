#pragma once

#include "nsvq/nn/model_config.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

struct QuantizerSettings {
  ModelConfig model;
  QuantizerConfig quantizer;
  ReplacementConfig replacement;
};

/// Applies settings model.*, quantizer.* and replacement.* as "key=value".
inline void apply_settings(QuantizerSettings& config, const std::vector<std::string>& settings) {
  OptionTable table;
  for (const auto& rows : {model_options(config.model), quantizer_options(config.quantizer),
                           replacement_options(config.replacement)}) {
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  table.load("", settings);
}

}  // namespace nsvq
