#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "nsvq/core/messages.h"

namespace nsvq {

// Standard error, shared by log lines and one status line (a progress bar). Thread-safe: each call
// writes its output as a whole.

// log_line (messages.h) prints a line, which stays. A status line is cleared first and drawn again
// below it.

template <typename... Args>
void log(fmt::format_string<Args...> format, Args&&... args) {
  log_line(fmt::format(format, std::forward<Args>(args)...));
}

/// Draws `line` instead of the status line. It must be narrower than the terminal.
void show_status(std::string line);
/// Removes the status line.
void clear_status();

/// Whether standard error is a terminal, on which a status line can be redrawn.
bool stderr_is_terminal();
/// Columns of the terminal; 80 if unknown.
int stderr_width();

/// Turns all printing off or on again: among several processes only one prints.
void set_quiet(bool quiet);

}  // namespace nsvq
