#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "nsvq/metrics/conventions.h"
#include "nsvq/metrics/frechet.h"

namespace CLI {
class App;
}

namespace nsvq {

/// What every command that measures takes.
struct MetricArguments {
  std::string metrics;  ///< "psnr,ssim"; empty: the fixed set that needs no weights
  std::string as = "nsvq";
  std::string pixels;  ///< rounded, truncated or float; empty: what the conventions say
  std::string json;
  std::string statistics;  ///< .npz: of Fréchet distances, in place of the images'
};

void declare_metric_arguments(CLI::App& app, MetricArguments& arguments);
/// `--statistics`, for commands that have a model's reconstructions.
void declare_statistics_argument(CLI::App& app, MetricArguments& arguments);

/// Whether there are tokens to measure beside images.
enum class Measured { images_and_tokens, images };

struct MetricChoice {
  std::vector<std::string> names;
  Conventions conventions;
  std::shared_ptr<const Gaussian> reference;  ///< from `arguments.statistics`
};

/// Throws UserError for unknown names and for statistics that cannot be read or serve nothing, and
/// RunError where `arguments.json` cannot be written.
MetricChoice choose_metrics(const MetricArguments& arguments, Measured measured);

/// Whether it compares images as sets, so that they need no partners.
bool is_frechet(const std::string& metric);

/// Throws UserError naming the first metric without a value: too few images.
void require_all(const MetricChoice& choice, const std::map<std::string, double>& values);

/// Adds figures under their names, counts as whole numbers.
void add_figures(nlohmann::ordered_json& json, const std::map<std::string, double>& values);
/// "as" and, for each metric, the choices behind it.
nlohmann::ordered_json describe_choice(const MetricChoice& choice);

/// Say that Fréchet distances are from a file of statistics, if they are.
void print_statistics(const MetricArguments& arguments);
void add_statistics(nlohmann::ordered_json& json, const MetricArguments& arguments);

/// Throws RunError where no file can be made under this name; nothing for an empty one.
void require_writable(const std::string& file);

}  // namespace nsvq
