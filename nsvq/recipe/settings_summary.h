#pragma once

#include <functional>
#include <set>
#include <string>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/settings/option_table.h"

namespace nsvq {

/// The settings to read at the start of a run, a line each: those that decide what is trained and
/// how long, and those that differ from their defaults. config.yaml has them all.
std::string summarize_settings(const TokenizerConfig& config);

/// The rows of `table` that are among `always_shown` or differ from `usual`, a table of the same
/// rows with the defaults. `note` is what to say behind the setting of a key.
std::string summarize_settings(const OptionTable& table, const OptionTable& usual,
                               const std::set<std::string>& always_shown,
                               const std::function<std::string(const std::string& key)>& note = {});

}  // namespace nsvq
