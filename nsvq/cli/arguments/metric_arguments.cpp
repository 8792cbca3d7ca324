#include "nsvq/cli/arguments/metric_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric.h"
#include "nsvq/metrics/metric_table.h"
#include "nsvq/metrics/sets/image_sets.h"

namespace nsvq {

void declare_metric_arguments(CLI::App& app, MetricArguments& arguments, Measured measured) {
  std::string names;
  for (const auto& kind : metric_kinds()) {
    if (kind.input == MetricInput::tokens && measured == Measured::images) continue;
    names += (names.empty() ? "" : ", ") + kind.name;
  }
  app.add_option("--metrics", arguments.metrics,
                 "separated by commas (default: those without weights): " + names)
      ->type_name("NAMES");
  app.add_option("--conventions", arguments.as, "nsvq, simvq, llamagen or adm (docs/evaluation.md)")
      ->capture_default_str()
      ->type_name("NAME")
      ->group(kRare);
  app.add_option("--pixels", arguments.pixels,
                 "compare values rounded or truncated to 8 bits, or float (default: as the "
                 "conventions say)")
      ->type_name("NAME")
      ->group(kRare);
  declare_json_argument(app, arguments.json);
}

void declare_statistics_argument(CLI::App& app, MetricArguments& arguments) {
  app.add_option("--statistics", arguments.statistics,
                 "FILE.npz of nsvq images statistics or pytorch-fid: Fréchet distances compare "
                 "reconstructions with it, not with the images of --data")
      ->type_name("FILE")
      ->group(kRare);
}

void print_weights(const std::vector<std::string>& metrics) {
  for (const auto& line : describe_weights(metrics)) fmt::print("  weights {}\n", line);
}

void print_origins(const std::map<std::string, double>& values, const MetricChoice& choice,
                   const SetNames& sets) {
  const auto described = describe_sets(choice, values, sets.reference, sets.classes);
  for (const auto& [metric, line] : described) fmt::print("  {}: {}\n", metric, line);
  print_weights(choice.names);
}

void add_origins(Json& json, const MetricArguments& arguments, const MetricChoice& choice) {
  if (!arguments.statistics.empty()) json["statistics"] = arguments.statistics;
  if (auto weights = weights_as_json(choice.names); !weights.empty()) json["weights"] = weights;
}

void print_figures(const std::string& title, const std::map<std::string, double>& values,
                   const MetricChoice& choice, const SetNames& sets) {
  fmt::print("{}, as {}\n{}", title, choice.conventions.name,
             metric_table(values, choice.conventions));
  print_origins(values, choice, sets);
}

void add_measured(Json& json, const std::map<std::string, double>& values,
                  const MetricArguments& arguments, const MetricChoice& choice,
                  const SetNames& sets) {
  add_figures(json, values);
  for (const auto& [metric, line] : describe_sets(choice, values, sets.reference, sets.classes)) {
    json["sets"][metric] = line;
  }
  add_origins(json, arguments, choice);
  json["conventions"] = describe_choice(choice);
}

}  // namespace nsvq
