#pragma once

#include <string>

namespace nsvq {

/// Writes what was printed. Throws RunError with the reason where that fails, such as a full disk.
void flush_stdout();

/// Prints the last words of work that is done and saved, whoever reads them: a closed pipe, as of
/// `nsvq train ... | head`, or a closed terminal is no error. Throws RunError for any other reason.
void print_last_words(const std::string& text);

}  // namespace nsvq
