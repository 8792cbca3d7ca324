#pragma once

#include <string>

#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

/// What usually helps against a sign (alarm.h), by its name: the settings that have an effect in a
/// run of `config`, as "a smaller loss.perceptual; a lower optimizer.lr".
std::string remedies(const std::string& sign, const TokenizerConfig& config);

}  // namespace nsvq
