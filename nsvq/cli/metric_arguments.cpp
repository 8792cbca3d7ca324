#include "nsvq/cli/metric_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/io/file.h"
#include "nsvq/metrics/frechet_file.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

void declare_metric_arguments(CLI::App& app, MetricArguments& arguments) {
  std::string names;
  for (const auto& kind : metric_kinds()) names += (names.empty() ? "" : ", ") + kind.name;
  app.add_option("--metrics", arguments.metrics,
                 "which, separated by commas (default: those that need no weights): " + names);
  app.add_option("--as", arguments.as, "conventions: nsvq, simvq or llamagen (docs/evaluation.md)")
      ->capture_default_str();
  app.add_option("--pixels", arguments.pixels,
                 "values compared: rounded or truncated to 8 bits, or float (default: as --as has "
                 "it)");
  app.add_option("--json", arguments.json, "also write the figures to this file");
}

void declare_statistics_argument(CLI::App& app, MetricArguments& arguments) {
  app.add_option("--statistics", arguments.statistics,
                 "FILE.npz: what Fréchet distances compare reconstructions with, in place of the "
                 "images of --data (nsvq statistics, or pytorch-fid's)");
}

namespace {

std::shared_ptr<const Gaussian> read_reference(const std::string& file,
                                               const std::vector<std::string>& metrics) {
  if (file.empty()) return nullptr;
  if (std::none_of(metrics.begin(), metrics.end(), is_frechet)) {
    throw UserError("{}: statistics are for Fréchet distances; ask for one (--metrics fid)", file);
  }
  return std::make_shared<const Gaussian>(read_gaussian(file));
}

std::vector<std::string> default_metrics(Measured measured) {
  std::vector<std::string> names;
  for (const auto& kind : metric_kinds()) {
    const bool fits = kind.input != MetricInput::tokens || measured == Measured::images_and_tokens;
    if (fits && !kind.needs_weights) names.push_back(kind.name);
  }
  return names;
}

}  // namespace

MetricChoice choose_metrics(const MetricArguments& arguments, Measured measured) {
  MetricChoice choice = {
      arguments.metrics.empty() ? default_metrics(measured) : parse_metric_names(arguments.metrics),
      find_conventions(arguments.as), nullptr};
  choice.reference = read_reference(arguments.statistics, choice.names);
  if (!arguments.pixels.empty()) {
    auto& conventions = choice.conventions;
    conventions.pixels = conventions.network = find_pixel_rule(arguments.pixels);
    conventions.name += " but pixels " + arguments.pixels;
  }
  require_writable(arguments.json);
  return choice;
}

bool is_frechet(const std::string& metric) {
  return metric_kind(metric).input == MetricInput::sets;
}

void require_all(const MetricChoice& choice, const std::map<std::string, double>& values) {
  for (const auto& name : choice.names) {
    if (!values.contains(name)) throw UserError("{} needs at least two images", name);
  }
}

void add_figures(nlohmann::ordered_json& json, const std::map<std::string, double>& values) {
  for (const auto& name : {"images", "broken_images"}) {
    const auto count = values.find(name);
    if (count != values.end()) json[name] = std::llround(count->second);
  }
  for (const auto& kind : metric_kinds()) {
    const auto value = values.find(kind.name);
    if (value != values.end()) json[kind.name] = value->second;
  }
}

nlohmann::ordered_json describe_choice(const MetricChoice& choice) {
  nlohmann::ordered_json json = {{"as", choice.conventions.name}};
  for (const auto& name : choice.names) {
    json[name] = metric_kind(name).choices(choice.conventions);
  }
  return json;
}

void print_statistics(const MetricArguments& arguments) {
  if (arguments.statistics.empty()) return;
  fmt::print("  Fréchet distances are from the statistics in {}\n", arguments.statistics);
}

void add_statistics(nlohmann::ordered_json& json, const MetricArguments& arguments) {
  if (!arguments.statistics.empty()) json["statistics"] = arguments.statistics;
}

void require_writable(const std::string& file) {
  if (!file.empty()) const AtomicFile probe(file);  // Never committed: nothing appears.
}

}  // namespace nsvq
