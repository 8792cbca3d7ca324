#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nsvq/metrics/metric_choice.h"

namespace CLI {
class App;
}

namespace nsvq {

/// What every command that measures takes.
struct MetricArguments : MetricRequest {
  std::string json;
};

/// `measured` says which metrics the help lists.
void declare_metric_arguments(CLI::App& app, MetricArguments& arguments, Measured measured);
/// `--statistics`, for commands that have a model's reconstructions.
void declare_statistics_argument(CLI::App& app, MetricArguments& arguments);

/// Say which weights the figures are from, and that Fréchet distances are from a file of
/// statistics, if they are.
void print_origins(const MetricArguments& arguments, const MetricChoice& choice);
void add_origins(nlohmann::ordered_json& json, const MetricArguments& arguments,
                 const MetricChoice& choice);
/// A line for each file of weights behind these metrics.
void print_weights(const std::vector<std::string>& metrics);

}  // namespace nsvq
