#pragma once

#include <string>
#include <vector>

#include "nsvq/settings/sources.h"

namespace nsvq {

/// Whether any of the sources is `pipe:COMMAND`.
bool any_pipe(const Sources& sources);

/// The commands of such sources, in order. Braces around a range `{00..03}` or a list `{a,b}`
/// without blanks, quotes and other signs of the shell are expanded; all others, and those after a
/// `$`, are the shell's. Throws UserError unless commands are allowed and all sources are such, for
/// one that is empty, and for too many.
std::vector<std::string> commands_of(const Sources& sources);

}  // namespace nsvq
