#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Runs scripts/weights.py ($NSVQ_WEIGHTS_SCRIPT, else that of the source tree of the build) by
/// $NSVQ_PYTHON, else the Python beside the LibTorch of the build, else python3. A failure becomes
/// a UserError (exit code 2) or a RunError with the last line that the script wrote. A script that
/// is not there, as for a program that was moved away from its source tree, is a UserError that
/// says what to do.
void run_weights_script(const std::vector<std::string>& arguments);

}  // namespace nsvq
