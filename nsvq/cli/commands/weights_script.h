#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Runs scripts/weights.py ($NSVQ_WEIGHTS_SCRIPT, else the installed one, else the source tree's)
/// by $NSVQ_PYTHON, else the Python beside the LibTorch of the build, else python3. The script
/// itself says in a line on standard error what fails; its exit codes are ours. Throws UserError
/// where there is no script or no Python.
void run_weights_script(const std::vector<std::string>& arguments);

}  // namespace nsvq
