#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric_set.h"

namespace CLI {
class App;
}

namespace nsvq {

/// Arguments of every command that measures.
struct MetricArguments : MetricRequest {
  JsonArgument json;
};

/// `measured` says which metrics the help lists.
void declare_metric_arguments(CLI::App& app, MetricArguments& arguments, Measured measured);
/// `--statistics`, for commands that have a model's reconstructions.
void declare_statistics_argument(CLI::App& app, MetricArguments& arguments);

/// Where figures come from: networks' weights and, if given, the file of statistics.
void print_origins(const MetricArguments& arguments, const MetricChoice& choice);
void add_origins(Json& json, const MetricArguments& arguments, const MetricChoice& choice);

/// The table of figures under "TITLE, as CONVENTIONS", and where they come from.
void print_figures(const std::string& title, const std::map<std::string, double>& values,
                   const MetricArguments& arguments, const MetricChoice& choice);
/// Adds the figures, where they come from and the conventions behind them.
void add_measured(Json& json, const std::map<std::string, double>& values,
                  const MetricArguments& arguments, const MetricChoice& choice);

/// A line for each file of weights behind these metrics.
void print_weights(const std::vector<std::string>& metrics);

}  // namespace nsvq
