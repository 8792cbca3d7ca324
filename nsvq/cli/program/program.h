#pragma once

namespace nsvq {

constexpr int kUserError = 2;
constexpr int kRunError = 3;

/// Thrown by a command whose exit code is that of processes it has started.
struct ExitCode {
  int value;
};

/// Runs the program and returns its exit code: 0, 2 for an error that the user can fix (arguments,
/// configuration, input files), 3 for a failure at run time, 130 or 143 if a signal stopped it and
/// its work is saved. Errors are one line on standard error.
int run_program(int argc, char** argv);

/// Opens /dev/null for each of standard input, output and error that is closed; what is printed
/// would go into the next file that is opened.
void open_standard_streams();

/// Restarts the program without OMP_NUM_THREADS where it asks for more threads than can be started,
/// which would crash. Libraries have read it by now.
void begin_without_many_threads(char** argv);

}  // namespace nsvq
