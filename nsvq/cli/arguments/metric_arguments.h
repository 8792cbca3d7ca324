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

/// What figures of sets of images are of, for outputs.
struct SetNames {
  std::string reference;     ///< as the user named it
  std::string classes = "";  ///< what is known of those of the images
};

/// Where figures come from: networks' weights, the sets of images that are compared and, if given,
/// the file of statistics.
void print_origins(const std::map<std::string, double>& values, const MetricChoice& choice,
                   const SetNames& sets);
void add_origins(Json& json, const MetricArguments& arguments, const MetricChoice& choice);

/// The table of figures under "TITLE, as CONVENTIONS", and where they come from.
void print_figures(const std::string& title, const std::map<std::string, double>& values,
                   const MetricChoice& choice, const SetNames& sets);
/// Adds the figures, where they come from and the conventions behind them.
void add_measured(Json& json, const std::map<std::string, double>& values,
                  const MetricArguments& arguments, const MetricChoice& choice,
                  const SetNames& sets);

/// A line for each file of weights behind these metrics.
void print_weights(const std::vector<std::string>& metrics);

}  // namespace nsvq
