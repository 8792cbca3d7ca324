#pragma once

#include <string>
#include <string_view>

namespace nsvq {

// What the operators tell the user. Without formatting, so that they compile with torch alone: the
// Python package has these two of its own (python/messages.cpp).

/// Prints a line on standard error, which stays (log.h).
void log_line(std::string_view line);

/// Throws UserError, in Python ValueError.
[[noreturn]] void throw_user_error(const std::string& line);

}  // namespace nsvq
