#pragma once

#include "nsvq/nn/options.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// Applies settings model.*, quantizer.* and replacement.* as "key=value".
inline void apply_settings(Config& config, const std::vector<std::string>& settings) {
  OptionTable table;
  for (const auto& rows : {model_options(config.model), quantizer_options(config.quantizer),
                           replacement_options(config.replacement)}) {
    table.rows.insert(table.rows.end(), rows.begin(), rows.end());
  }
  table.load("", settings);
}

}  // namespace nsvq
