#pragma once

#include <string>

namespace nsvq {

/// Columns of standard output: $COLUMNS, else the terminal's, else 80.
int stdout_width();

/// Writes what was printed. Throws RunError with the reason where that fails, such as a full disk.
void flush_stdout();

/// Prints the last lines of work that is done and saved. A closed pipe, as in
/// `nsvq train ... | head`, or a closed terminal is no error. Throws RunError for any other reason.
void print_last_words(const std::string& text);

/// Standard output reserved for one text that a program may read: all else that is printed while
/// this object lives goes to standard error.
class ReservedStdout {
 public:
  /// `option` is what asked for it, for errors. Throws RunError.
  explicit ReservedStdout(const std::string& option);
  ~ReservedStdout();
  ReservedStdout(const ReservedStdout&) = delete;
  ReservedStdout& operator=(const ReservedStdout&) = delete;

  /// Gives standard output back and prints the text to it.
  void print(const std::string& text);

 private:
  void restore();

  int stdout_ = -1;  ///< standard output, while prints go to standard error
};

}  // namespace nsvq
