#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "nsvq/report/chart.h"
#include "nsvq/runs/run_log.h"

namespace nsvq {

/// What the page shows of a run's log: facts, results, alarms, phases, curves of at most `points`
/// points, histograms of train.check.
nlohmann::ordered_json log_data(const RunLog& log, size_t points);

/// A line of a chart, of at most `points` points: its name, x and y. Where points were left out,
/// `mean` has for each the mean around it.
nlohmann::ordered_json line_data(const Series& series, size_t points);

/// Six digits, all that a chart can show, at a third of the length. Not finite: null.
nlohmann::ordered_json short_number(double value);

}  // namespace nsvq
