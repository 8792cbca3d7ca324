#pragma once

#include <string>
#include <string_view>

namespace nsvq {

/// Standard error, shared by log lines and one status line (a progress bar). Every call is whole:
/// threads do not mix their output.

/// Whether a status line can be redrawn there.
bool stderr_is_terminal();
/// Columns, 80 where they are not known.
int stderr_width();

/// A line that stays. A status line is cleared first and drawn again below it.
void print_line(std::string_view line);
/// Draws `line` in place of the status line. It must be narrower than the terminal.
void show_status(std::string line);
/// Takes the status line away.
void clear_status();

}  // namespace nsvq
