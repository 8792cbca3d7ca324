#pragma once

#include <string>
#include <vector>

namespace nsvq {

/// Runs scripts/weights.py, of which this program carries a copy, with $NSVQ_PYTHON, else the
/// Python beside the LibTorch of the build, else python3. Its failure becomes a UserError (exit
/// code 2) or a RunError with the last line that it wrote.
void run_weights_script(const std::vector<std::string>& arguments);

}  // namespace nsvq
