#pragma once

#include <string>

namespace nsvq {

/// A text as one word for a POSIX shell: as it is where that is safe, else in quotes.
std::string shell_word(const std::string& text);

/// The same for a command that is printed: what a terminal would act on, or not show, is escaped
/// within $'...', which bash, zsh and ksh read, but not every sh.
std::string shown_shell_word(const std::string& text);

}  // namespace nsvq
