#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/compare_images.h"
#include "nsvq/metrics/sets/image_sets.h"

namespace nsvq {

namespace {

struct ImagesCompareArguments {
  std::string reference, images;
  int64_t limit = 0;
  std::string device = "auto";
  MetricArguments metrics;
};

std::unique_ptr<Source> open_given(const std::string& images) {
  Sources sources = images;
  sources.pipes_allowed = true;
  return open_source(sources);
}

void compare_image_sets(const ImagesCompareArguments& arguments) {
  auto wanted = arguments.metrics;
  const bool from_file = arguments.reference.ends_with(".npz");
  if (from_file) {
    wanted.statistics = arguments.reference;
    wanted.images = ReferenceImages::in_file;
  }
  const auto choice = choose_metrics(wanted, Measured::images);
  JsonOutput output(arguments.metrics.json);
  const NamedSource reference{arguments.reference,
                              from_file ? nullptr : open_given(arguments.reference)};
  const NamedSource images{arguments.images, open_given(arguments.images)};
  const auto values =
      compare_images(reference, images, choice, choose_device(arguments.device), arguments.limit);
  const SetNames sets{reference.spec,
                      describe_classes(*images.source, std::llround(values.at("images")))};
  print_figures(fmt::format("{} against {}", images.spec, reference.spec), values, choice, sets);
  Json json = {{"reference", reference.spec}, {"other", images.spec}};
  add_measured(json, values, arguments.metrics, choice, sets);
  output.write(json);
}

}  // namespace

void declare_images_compare(CLI::App& app) {
  const auto arguments = std::make_shared<ImagesCompareArguments>();
  app.add_option("REFERENCE", arguments->reference,
                 "an image, a folder, tar shards, or statistics and images (.npz) for figures of "
                 "sets, as ADM's reference files")
      ->required();
  app.add_option("IMAGES", arguments->images,
                 "an image, a folder, tar shards or images in an .npz to compare with it; paired "
                 "by name without ending, of equal sizes (figures of sets, such as fid, need no "
                 "pairs)")
      ->required();
  declare_limit(app, arguments->limit);
  app.get_option("--limit")->description(
      "only the first N images of REFERENCE and their partners; for figures of sets the first N of "
      "both");
  declare_metric_arguments(app, arguments->metrics, Measured::images);
  declare_device(app, arguments->device);
  app.callback([arguments] { compare_image_sets(*arguments); });
}

}  // namespace nsvq
