#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/experiments/experiment.h"
#include "nsvq/experiments/plan.h"
#include "nsvq/report/run_log.h"

namespace nsvq {

/// Figures that a run has left in its folder.
class RunFigures {
 public:
  explicit RunFigures(const PlannedRun& run);

  /// A column's value; nothing if the run has none, or it is not finite.
  std::optional<double> figure(const Experiment& experiment, const std::string& column) const;
  /// (step, value) of "KIND.KEY".
  std::vector<std::pair<double, double>> curve(const std::string& of,
                                               const std::string& phase = "") const;
  /// Where the encoder froze; nothing if it did not.
  std::optional<double> freeze() const;

 private:
  std::map<std::string, double> evaluated_;
  RunLog log_;
};

}  // namespace nsvq
