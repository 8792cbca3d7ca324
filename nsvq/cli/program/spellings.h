#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// The words of a command line with the present names of commands and options that were renamed; a
/// line of the log for each says the new one. Throws UserError for a command that is gone.
std::vector<std::string> with_present_spellings(std::vector<std::string> words);

}  // namespace nsvq
