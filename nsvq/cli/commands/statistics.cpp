#include <CLI/CLI.hpp>
#include <optional>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/output_name.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/images/grid.h"
#include "nsvq/data/images/transform.h"
#include "nsvq/metrics/feature_extractor.h"
#include "nsvq/metrics/frechet_file.h"
#include "nsvq/metrics/frechet_metric.h"
#include "nsvq/metrics/image_batches.h"
#include "nsvq/metrics/metric_choice.h"

namespace nsvq {

namespace {

struct StatisticsArguments {
  Sources data;
  std::string out;
  std::string metric = "fid";
  std::string device = "auto";
  int size = 0;
};

/// Resizes and crops an image to size x size as for a model; 0 leaves it unchanged.
Image at_size(Image image, int size) {
  if (size == 0) return image;
  auto pixels = at::empty({3, size, size});
  transform(image, {.size = size}, /*seed=*/0,
            {pixels.data_ptr<float>(), static_cast<size_t>(pixels.numel())});
  return to_image(pixels);
}

void run_statistics(const StatisticsArguments& arguments) {
  require_replaceable("--out", arguments.out, FileKind::npz);
  require_writable(arguments.out);
  const auto device = choose_device(arguments.device);
  const auto source = open_source(arguments.data);
  if (source->size() < 2) {
    throw UserError("{}: a covariance needs at least two images", arguments.data.text());
  }
  std::optional<int64_t> size;  // of the images so far; 0: not all the same, or not square
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

void declare_statistics(CLI::App& app) {
  const auto arguments = std::make_shared<StatisticsArguments>();
  std::vector<std::string> metrics;
  for (const auto& kind : feature_extractor_kinds()) metrics.push_back(kind.name);
  declare_data(app, arguments->data, "images: folders, tar shards or builtin:dead-leaves")
      ->required();
  app.add_option("--out", arguments->out,
                 "FILE.npz: mean and covariance (mu, sigma) in pytorch-fid's format")
      ->required()
      ->check([](const std::string& name) {
        return name.ends_with(".npz") ? "" : "end the name in .npz";
      });
  app.add_option("--metric", arguments->metric, "Fréchet distance whose network is used")
      ->check(CLI::IsMember(metrics))
      ->capture_default_str();
  app.add_option("--size", arguments->size,
                 "resize and crop images to this size as for a model; 0 keeps their own size")
      ->check(CLI::Range(0, 8192))
      ->capture_default_str();
  app.add_option("--device", arguments->device, "auto, cpu or cuda: device of the network")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.callback([arguments] { run_statistics(*arguments); });
}

}  // namespace nsvq
