#pragma once

#include <string>
#include <vector>

#include "nsvq/settings/sources.h"

namespace nsvq {

/// Whether any source is `pipe:COMMAND`.
bool any_pipe(const Sources& sources);

/// The commands of pipe: sources, in order. Expands braces around a range `{00..03}` or a list
/// `{a,b}` without blanks, quotes and characters special to the shell; the shell expands all other
/// braces and those after a `$`. Throws UserError unless commands are allowed and all sources are
/// commands, for an empty command, and for too many.
std::vector<std::string> commands_of(const Sources& sources);

}  // namespace nsvq
