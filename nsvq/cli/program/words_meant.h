#pragma once

#include <string>
#include <vector>

namespace nsvq {

// What is meant by words of a command line that are none of this program's.

/// For a word that is no command but that people type for one: what to type, and the command whose
/// help tells more, as "; nsvq train RUN --resume does that (nsvq help train)". Else empty.
std::string command_meant(const std::string& word);

/// The key=value word to write in place of an option that a command with settings does not have:
/// "train.batch_size=4" for `--batch-size 4` among the words of a command line. Empty if no setting
/// is meant.
std::string setting_meant(const std::string& option, const std::vector<std::string>& words);

}  // namespace nsvq
