#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/metrics/compare_images.h"
#include "nsvq/metrics/metric_table.h"

namespace nsvq {

namespace {

struct MetricsArguments {
  std::string reference, other;
  std::string device = "auto";
  MetricArguments metrics;
};

std::unique_ptr<Source> open_given(const std::string& images) {
  Sources sources = images;
  sources.pipes_allowed = true;
  return open_source(sources);
}

void run_metrics(const MetricsArguments& arguments) {
  auto wanted = arguments.metrics;
  const bool from_file = arguments.reference.ends_with(".npz");
  if (from_file) wanted.statistics = arguments.reference;
  const auto choice = choose_metrics(wanted, Measured::images);
  JsonOutput output(arguments.metrics.json);
  const NamedSource reference{arguments.reference,
                              from_file ? nullptr : open_given(arguments.reference)};
  const NamedSource other{arguments.other, open_given(arguments.other)};
  const auto values = compare_images(reference, other, choice, choose_device(arguments.device));
  fmt::print("{} against {}, as {}\n{}", other.spec, reference.spec, choice.conventions.name,
             metric_table(values, choice.conventions));
  print_origins(arguments.metrics, choice);
  nlohmann::ordered_json json = {{"reference", reference.spec}, {"other", other.spec}};
  add_figures(json, values);
  add_origins(json, arguments.metrics, choice);
  json["conventions"] = describe_choice(choice);
  output.write(json);
}

}  // namespace

void declare_metrics(CLI::App& app) {
  const auto arguments = std::make_shared<MetricsArguments>();
  app.add_option(
         "REFERENCE", arguments->reference,
         "reference: an image, a folder, tar shards, or statistics (.npz) for Fréchet distances")
      ->required();
  app.add_option("OTHER", arguments->other,
                 "images to compare: an image, a folder or tar shards; paired with the reference "
                 "by name without ending, of equal sizes (Fréchet distances need no pairs)")
      ->required();
  declare_metric_arguments(app, arguments->metrics, Measured::images);
  app.add_option("--device", arguments->device,
                 "auto, cpu or cuda: device of the metrics' networks")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.callback([arguments] { run_metrics(*arguments); });
}

}  // namespace nsvq
