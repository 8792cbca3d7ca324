#pragma once

#include <string>
#include <vector>

#include "nsvq/runs/run_log.h"

namespace nsvq {

/// A figure of an evaluation: the number, and as tables show it, with its unit.
struct Figure {
  double value = 0;
  std::string text;
  double epoch = 0;
};

/// A metric over the evaluations of a run.
struct MetricResult {
  std::string title;
  Figure last, best, first;  ///< nobody knows the best of a figure that the registry lacks: "–"
};

/// What the evaluations hold: metrics in the order of the registry, then others by name. Empty
/// without evaluations.
std::vector<MetricResult> results(const RunLog& log);

/// One line: epochs, steps, training time, phase, how many signs of collapse.
std::string run_facts(const RunLog& log);
/// Of the epochs that were finished.
double training_seconds(const RunLog& log);

/// "45 s", "12 min", "2 h 31 min".
std::string duration_in_words(double seconds);

}  // namespace nsvq
