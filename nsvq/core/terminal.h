#pragma once

#include <string>
#include <string_view>

namespace nsvq {

/// Standard error, shared by log lines and one status line (a progress bar). Thread-safe: each call
/// writes its output as a whole.

/// Whether standard error is a terminal, on which a status line can be redrawn.
bool stderr_is_terminal();
/// Columns of the terminal; 80 if unknown.
int stderr_width();

/// From now on nothing is printed, or again: of several processes only one speaks.
void set_quiet(bool quiet);

/// Prints a permanent line. A status line is cleared first and drawn again below it.
void print_line(std::string_view line);
/// Draws `line` in place of the status line. It must be narrower than the terminal.
void show_status(std::string line);
/// Removes the status line.
void clear_status();

}  // namespace nsvq
