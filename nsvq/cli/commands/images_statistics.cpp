#include <CLI/CLI.hpp>
#include <optional>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/metrics/compare_images.h"
#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet.h"
#include "nsvq/metrics/metric_set.h"

namespace nsvq {

namespace {

struct StatisticsArguments {
  Sources data;
  int64_t limit = 0;
  std::string out;
  bool force = false;
  std::string metric = "fid";
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

void write_statistics(const StatisticsArguments& arguments) {
  check_output_files({{"--out", arguments.out}}, arguments.force);
  const auto device = choose_device(arguments.device);
  const auto source = limited(open_source(arguments.data), arguments.limit);
  if (source->size() < 2) {
    throw UserError("{}: a covariance needs at least two images", arguments.data.text());
  }
  std::optional<int64_t> size;  // side of the images so far; 0: they differ or are not square
  FrechetMetric metric(make_feature_extractor(arguments.metric, device), device,
                       PixelRule::rounded);
  for_each_batch(
      "statistics", source->size(),
      [&](int64_t i) {
        return ImagePair{at_size(source->load(i), arguments.size), {}};
      },
      [&](const EvalBatch& batch) {
        const auto& images = batch.images;
        const int64_t side = images.size(2) == images.size(3) ? images.size(2) : 0;
        size = size.value_or(side) == side ? side : 0;
        metric.add(batch);
      });
  warn_of_few_images(arguments.metric, static_cast<double>(source->size()));
  auto gaussian = metric.images();
  gaussian.size = size.value_or(0);
  write_gaussian(arguments.out, gaussian);
  fmt::print("{}: {} of the {} of {}\n", arguments.out, arguments.metric,
             count_of(source->size(), "image"), arguments.data.text());
  print_weights({arguments.metric});
}

}  // namespace

void declare_images_statistics(CLI::App& app) {
  const auto arguments = std::make_shared<StatisticsArguments>();
  std::vector<std::string> metrics;
  for (const auto& kind : feature_extractor_kinds()) metrics.push_back(kind.name);
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
  app.add_option("--metric", arguments->metric, "the Fréchet distance whose network is used")
      ->check(CLI::IsMember(metrics))
      ->capture_default_str();
  app.add_option("--size", arguments->size,
                 "resize and crop images to this size as for a model; 0 keeps their own size")
      ->check(CLI::Range(0, 8192))
      ->capture_default_str();
  declare_device(app, arguments->device);
  app.callback([arguments] { write_statistics(*arguments); });
}

}  // namespace nsvq
