#pragma once

namespace nsvq {

/// Runs the program and returns its exit code: 0, 2 for an error that the user can fix (arguments,
/// configuration, input files), 3 for a failure at run time. Errors are one line on standard error.
int run_program(int argc, char** argv);

}  // namespace nsvq
