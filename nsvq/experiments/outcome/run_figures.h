#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/experiments/plan/plan.h"
#include "nsvq/experiments/spec/experiment.h"
#include "nsvq/runs/log.h"

namespace nsvq {

/// Figures that a run has left in its folder.
class RunFigures {
 public:
  RunFigures(const Plan& plan, size_t run);

  /// A column's value; nothing if the run has none, or it is not finite.
  std::optional<double> figure(const Experiment& experiment, const std::string& column) const;
  /// (step, value) of "KIND.KEY"; of a run that only makes a file KEY of what it says about it, at
  /// step 0.
  std::vector<std::pair<double, double>> curve(const std::string& of,
                                               const std::string& phase = "") const;
  bool has_steps() const { return has_steps_; }
  /// Where the encoder froze; nothing if it did not.
  std::optional<double> freeze() const;

 private:
  bool has_steps_ = true;  ///< it is trained
  std::map<std::string, double> evaluated_;
  std::optional<double> chosen_;  ///< by its pilots
  RunLog log_;
};

}  // namespace nsvq
