#pragma once

#include <string>

namespace nsvq {

/// A text as one word for a POSIX shell: unchanged where that is safe, else in quotes.
std::string shell_word(const std::string& text);

/// shell_word for a command that is printed: bytes that a terminal would act on, or not show, are
/// escaped within $'...', which bash, zsh and ksh read, but not every sh.
std::string shown_shell_word(const std::string& text);

}  // namespace nsvq
