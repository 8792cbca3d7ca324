#pragma once

#include <string>
#include <string_view>

namespace nsvq {

/// `text` fit for one line of a terminal or a log, whatever file it came from: control characters
/// (escape sequences, line ends), marks that change the direction of writing and bytes that are not
/// UTF-8 become \\xNN. Tabs stay. The log does this to every line; what prints text of files to
/// standard output calls it. (quote in text.h is for the parts of a message.)
std::string printable(std::string_view text);

}  // namespace nsvq
