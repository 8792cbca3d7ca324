#pragma once

#include <string>

namespace nsvq {

/// A text as one word for a POSIX shell: as it is where that is safe, else in quotes.
std::string shell_word(const std::string& text);

}  // namespace nsvq
