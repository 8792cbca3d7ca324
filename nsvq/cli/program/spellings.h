#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// The words of a command line with the present names of commands and options that were renamed; a
/// line of the log for each says the new one. Throws UserError for a command that is gone.
std::vector<std::string> with_present_spellings(std::vector<std::string> words);

/// For a word that is no command but that people type for one: what to type, and the command whose
/// help tells more, as "; nsvq train RUN --resume does that (nsvq help train)". Else empty.
std::string command_meant(const std::string& word);

}  // namespace nsvq
