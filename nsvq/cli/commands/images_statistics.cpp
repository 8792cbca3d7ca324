#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <optional>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/lookup.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/metrics/compare_images.h"
#include "nsvq/metrics/sets/feature_extractor.h"
#include "nsvq/metrics/sets/frechet.h"
#include "nsvq/metrics/sets/image_sets.h"
#include "nsvq/metrics/sets/inception_features.h"

namespace nsvq {

namespace {

struct StatisticsArguments {
  Sources data;
  int64_t limit = 0;
  std::string out;
  bool force = false;
  std::string metrics = "fid";
  std::string conventions = "nsvq";
  std::string device = "auto";
  int size = 0;
};

/// An image resized and cropped to size x size as for a model; 0 leaves it unchanged.
Image at_size(Image image, int size) {
  if (size == 0) return image;
  auto pixels = at::empty({3, size, size});
  transform(image, {.size = size}, /*seed=*/0,
            {pixels.data_ptr<float>(), static_cast<size_t>(pixels.numel())});
  return to_image(pixels);
}

/// Throws UserError for metrics that a file of statistics is not for, and for two whose arrays have
/// the same names.
std::vector<std::string> chosen_metrics(const std::string& list) {
  const auto names = parse_metric_names(list);
  std::map<std::string, std::string> taken;  // array -> metric
  for (const auto& name : names) {
    find_named(feature_extractor_kinds(), "Fréchet distance", name, "--metric");
    const auto [other, first] = taken.emplace(gaussian_arrays(name).mean, name);
    if (first) continue;
    throw UserError("--metric: a file holds one '{}', that of {} or of {}; write two files",
                    other->first, other->second, name);
  }
  return names;
}

void write_statistics(const StatisticsArguments& arguments) {
  check_output_files({{"--out", arguments.out}}, arguments.force);
  const auto names = chosen_metrics(arguments.metrics);
  const auto device = choose_device(arguments.device);
  const auto source = limited(open_source(arguments.data), arguments.limit);
  if (source->size() < 2) {
    throw UserError("{}: a covariance needs at least two images", arguments.data.text());
  }
  std::optional<int64_t> size;  // side of the images so far; 0: they differ or are not square
  MetricOptions options{.conventions = find_conventions(arguments.conventions), .device = device};
  std::map<std::string, FrechetMetric> metrics;
  const auto& conventions = options.conventions;
  for (const auto& name : names) {
    if (metric_kind(name).weights.front() == kInceptionWeights) {
      options.inception = inception_features(name, options);
    }
    metrics.emplace(name, FrechetMetric(make_feature_extractor(name, options)));
  }
  for_each_batch(
      "statistics", source->size(),
      [&](int64_t i) {
        return ImagePair{at_size(source->load(i), arguments.size), {}};
      },
      [&](const EvalBatch& batch) {
        const auto& images = batch.images;
        const int64_t side = images.size(2) == images.size(3) ? images.size(2) : 0;
        size = size.value_or(side) == side ? side : 0;
        if (options.inception) options.inception->remember();
        for (auto& [name, metric] : metrics) metric.add(batch);
        if (options.inception) options.inception->forget();
      });
  std::map<std::string, Gaussian> gaussians;
  for (const auto& [name, metric] : metrics) {
    warn_of_few_images(name, static_cast<double>(source->size()));
    auto gaussian = metric.images();
    gaussian.size = size.value_or(0);
    gaussian.resize = conventions.inception;
    gaussians.emplace(name, std::move(gaussian));
  }
  write_gaussians(arguments.out, gaussians);
  fmt::print("{}: {} of the {} of {}\n", arguments.out, fmt::join(names, ", "),
             count_of(source->size(), "image"), arguments.data.text());
  print_weights(names);
}

}  // namespace

void declare_images_statistics(CLI::App& app) {
  const auto arguments = std::make_shared<StatisticsArguments>();
  declare_data(app, arguments->data, "images: folders, tar shards or builtin:dead-leaves")
      ->required();
  declare_limit(app, arguments->limit);
  app.add_option("--out", arguments->out,
                 "FILE.npz: mean and covariance (mu, sigma) in pytorch-fid's format")
      ->required()
      ->type_name("FILE")
      ->check([](const std::string& name) {
        return name.ends_with(".npz") ? "" : "end the name in .npz";
      });
  declare_force(app, arguments->force);
  app.add_option("--metric", arguments->metrics,
                 fmt::format("Fréchet distances to be measured: {}, or fid,sfid in one file",
                             fmt::join(names_of(feature_extractor_kinds()), ", ")))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--conventions", arguments->conventions,
                 "adm: resize as ADM's evaluator does (docs/evaluation.md)")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(kRare);
  app.add_option("--size", arguments->size,
                 "resize and crop images to this size as for a model; 0 keeps their own size")
      ->check(CLI::Range(0, 8192))
      ->capture_default_str();
  declare_device(app, arguments->device);
  app.callback([arguments] { write_statistics(*arguments); });
}

}  // namespace nsvq
