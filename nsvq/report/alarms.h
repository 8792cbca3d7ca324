#pragma once

#include <string>
#include <vector>

#include "nsvq/runs/run_log.h"

namespace nsvq {

/// A sign of collapse with every epoch at which the run noted it.
struct RaisedAlarm {
  std::string sign;
  std::string reason;          ///< as last noted
  std::vector<double> epochs;  ///< in order
  std::vector<double> steps;   ///< of the same notes
};

/// One entry a sign, in the order in which they first appeared.
std::vector<RaisedAlarm> raised_alarms(const RunLog& log);

/// "epoch 4", "epochs 4 to 6, 9".
std::string epochs_in_words(const std::vector<double>& epochs);

}  // namespace nsvq
