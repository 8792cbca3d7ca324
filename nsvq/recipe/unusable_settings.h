#pragma once

#include <vector>

#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// The settings that the chosen quantizer would refuse, each with the value that it takes. What
/// becomes of them is decided by where they were set (SettingsReader::finish, docs/quantizers.md).
std::vector<Unusable> unusable_settings(const TokenizerConfig& config);

}  // namespace nsvq
