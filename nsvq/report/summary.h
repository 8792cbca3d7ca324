#pragma once

#include <string>

#include "nsvq/report/run_log.h"

namespace nsvq {

/// One line: epochs, steps, training time, phase, how many signs of collapse.
std::string run_facts(const RunLog& log);
/// The last evaluation beside the best and the first one, as an HTML table; empty without
/// evaluations.
std::string result_table(const RunLog& log);
/// Where each phase began and why, as an HTML table; empty without
/// either.
std::string phase_table(const RunLog& log);

/// "45 s", "12 min", "2 h 31 min".
std::string duration_in_words(double seconds);

}  // namespace nsvq
