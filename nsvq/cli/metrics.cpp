#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "nsvq/cli/command.h"
#include "nsvq/cli/image_batches.h"
#include "nsvq/cli/metric_arguments.h"
#include "nsvq/cli/table.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/io/file.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

struct MetricsArguments {
  std::string reference, other;
  std::string device = "auto";
  MetricArguments metrics;
};

/// Pairs of images to compare. If the reference is given by its statistics (.npz) it has no images,
/// and its source is null.
std::vector<Pair> pairs_of(const NamedSource& reference, const NamedSource& other,
                           const MetricChoice& choice) {
  const bool sets = std::all_of(choice.names.begin(), choice.names.end(), is_frechet);
  if (choice.reference && !sets) {
    throw UserError("{}: statistics suffice for Fréchet distances only; other metrics need images",
                    reference.spec);
  }
  return sets ? unpaired(reference.source.get(), *other.source) : pair_by_name(reference, other);
}

std::map<std::string, double> measure(const NamedSource& reference, const NamedSource& other,
                                      const MetricChoice& choice, c10::Device device) {
  const auto pairs = pairs_of(reference, other, choice);
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = 0,
                                   .device = device,
                                   .reference = choice.reference});
  ImageBatches batches([&](const EvalBatch& batch) { metrics.add(batch); });
  Progress progress("metrics", std::ssize(pairs), "images");
  int64_t done = 0;
  load_ahead(
      std::ssize(pairs), [&](int64_t i) { return load_pair(reference, other, pairs[i]); },
      [&](ImagePair pair) {
        batches.add(std::move(pair));
        progress.update(++done);
      });
  batches.flush();
  progress.finish();
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>((reference.source ? reference : other).source->size());
  return values;
}

void run_metrics(const MetricsArguments& arguments) {
  auto wanted = arguments.metrics;
  const bool from_file = arguments.reference.ends_with(".npz");
  if (from_file) wanted.statistics = arguments.reference;
  const auto choice = choose_metrics(wanted, Measured::images);
  const NamedSource reference{arguments.reference,
                              from_file ? nullptr : open_source(arguments.reference)};
  const NamedSource other{arguments.other, open_source(arguments.other)};
  const auto values = measure(reference, other, choice, choose_device(arguments.device));
  fmt::print("{} against {}, as {}\n{}", other.spec, reference.spec, choice.conventions.name,
             metric_table(values, choice.conventions));
  if (arguments.metrics.json.empty()) return;
  nlohmann::ordered_json json = {{"reference", reference.spec}, {"other", other.spec}};
  add_figures(json, values);
  json["conventions"] = describe_choice(choice);
  write_text(arguments.metrics.json, json.dump(2) + "\n");
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
  declare_metric_arguments(app, arguments->metrics);
  app.add_option("--device", arguments->device,
                 "auto, cpu or cuda: device of the metrics' networks")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.callback([arguments] { run_metrics(*arguments); });
}

}  // namespace nsvq
