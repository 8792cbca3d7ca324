#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// The key=value word to write in place of an option that a command with settings does not have:
/// "train.batch_size=4" for `--batch-size 4` among the words of a command line. Empty if no setting
/// is meant.
std::string setting_for_option(const std::string& option, const std::vector<std::string>& words);

}  // namespace nsvq
