#pragma once

#include <string>
#include <vector>

#include "nsvq/settings/option_table.h"

namespace nsvq {

/// The keys of a table that a word which is none of them may stand for, at most three, the
/// likeliest first: a misspelt key, a word of other programs (OptionTable::other_words), a key of
/// another section. None rather than one that is not meant.
std::vector<std::string> keys_meant(const std::string& word, const OptionTable& table);

}  // namespace nsvq
