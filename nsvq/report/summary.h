#pragma once

#include <string>
#include <vector>

#include "nsvq/runs/log.h"

namespace nsvq {

/// A sign of collapse with every epoch at which the run noted it.
struct RaisedAlarm {
  std::string sign;
  std::string reason;          ///< as last noted
  std::vector<double> epochs;  ///< in order
  std::vector<double> steps;   ///< steps of the same notes
};

/// One entry a sign, in the order in which they first appeared.
std::vector<RaisedAlarm> raised_alarms(const RunLog& log);

/// "epoch 4", "epochs 4 to 6, 9".
std::string epochs_in_words(const std::vector<double>& epochs);

/// A figure of an evaluation: the number, and as tables show it, with its unit.
struct Figure {
  double value = 0;
  std::string text;
  double epoch = 0;
};

/// A metric over the evaluations of a run.
struct MetricResult {
  std::string title;
  Figure last, best, first;  ///< best: "–" where the registry lacks the metric
};

/// The metrics of the evaluations in the order of the registry, then unknown ones by name. Empty
/// without evaluations.
std::vector<MetricResult> results(const RunLog& log);

/// One line: epochs, steps, training time, phase, how many signs of collapse.
std::string run_facts(const RunLog& log);
/// Seconds of the finished epochs.
double training_seconds(const RunLog& log);

/// "45 s", "12 min", "2 h 31 min".
std::string duration_in_words(double seconds);

}  // namespace nsvq
