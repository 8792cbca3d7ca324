#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "nsvq/cli/arguments/metric_arguments.h"
#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/diffusion/diffusion.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/data/data_config.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/recipe/loader_options.h"

namespace nsvq {

namespace {

struct DiffusionEvalArguments : SampleArguments {
  int64_t count = 5000, limit = 0;
  Sources reference;  ///< images, or one file of statistics (.npz)
  MetricArguments metrics;
};

/// Fréchet distances: the two sets differ in their number of images.
MetricChoice choose_set_metrics(MetricArguments& metrics, const Sources& reference, int64_t limit) {
  if (metrics.metrics.empty()) metrics.metrics = "fid";
  if (reference.text().ends_with(".npz")) metrics.statistics = reference.text();
  const auto choice = choose_metrics(metrics, Measured::images);
  if (choice.reference && limit > 0) {
    throw UserError("--limit: {} holds statistics, of which no image can be left out",
                    reference.text());
  }
  for (const auto& name : choice.names) {
    if (is_frechet(name)) continue;
    throw UserError("--metrics: {} compares images one by one, and samples have no partners", name);
  }
  return choice;
}

std::string set_metrics() {
  std::string names;
  for (const auto& kind : metric_kinds()) {
    if (is_frechet(kind.name)) names += (names.empty() ? "" : ", ") + kind.name;
  }
  return names;
}

/// Adds the reference's images, resized and cropped as for training, and returns their number.
int64_t add_reference(const DiffusionEvalArguments& arguments, const DiffusionSession& session,
                      Group& group, MetricSet& metrics) {
  const auto& config = session.config();
  const auto source = limited(
      open_source(with_hashes(arguments.reference, config.data.split),
                  {.pixels = static_cast<uint64_t>(config.data.max_pixels)}, config.data.retries),
      arguments.limit);
  auto options = inference_loader_options(config, session.device());
  options.batch_size = arguments.batch_size;
  options.rank = group.rank();
  options.world = group.size();
  Loader loader(source, options);
  loader.start(0);
  Progress progress("reference", source->size(), "images");
  int64_t count = 0;
  while (const auto batch = loader.next()) {
    metrics.add({batch->images, {}, {}});
    count += batch->images.size(0);
    progress.update(count * group.size());
  }
  progress.finish();
  const auto all = at::tensor({count}, at::kLong);
  group.sum({all});
  return all.item<int64_t>();
}

/// Whether the reference has images that the model was trained on, as is usual for FID; logged.
bool has_training_images(const DiffusionEvalArguments& arguments, const DiffusionSession& session) {
  const auto& config = session.config();
  return training_data_key(config) == "data.train" &&
         judges_training_images(arguments.reference, session.model().file.string(), config.data,
                                /*on_purpose=*/true);
}

/// Samples and adds the batches of this rank; ranks take them in turn.
void add_samples(const DiffusionEvalArguments& arguments, DiffusionSession& session, Group& group,
                 MetricSet& metrics) {
  Progress progress("sample", arguments.count, "images");
  const int64_t batch = arguments.batch_size, stride = batch * group.size();
  for (int64_t first = batch * group.rank(); first < arguments.count; first += stride) {
    const int64_t end = std::min(first + batch, arguments.count);
    metrics.add({{}, session.sample(request_images(session, arguments, first, end)), {}});
    progress.update(std::min(first + stride, arguments.count));
  }
  progress.finish();
}

void evaluate_diffusion(DiffusionEvalArguments arguments, const Launch& launch, Group& group) {
  if (!group.leads()) arguments.metrics.json.file = "";
  const auto choice = choose_set_metrics(arguments.metrics, arguments.reference, arguments.limit);
  JsonOutput output(arguments.metrics.json);
  auto session = open_diffusion(arguments, launch);
  const torch::NoGradGuard no_grad;
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = 0,
                                   .device = session.device(),
                                   .reference = choice.reference});
  const bool on_training_images = !choice.reference && has_training_images(arguments, session);
  const int64_t known = choice.reference ? choice.reference->count
                                         : add_reference(arguments, session, group, metrics);
  add_samples(arguments, session, group, metrics);
  group.sum(metrics.sums());
  if (!group.leads()) return;
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>(arguments.count);
  if (known > 0) values["reference_images"] = static_cast<double>(known);
  warn_of_few_images(choice, values);
  const auto& config = session.config();
  const auto& sample = config.sample;
  const auto classes =
      config.classes > 0 ? fmt::format(", class {}, guidance {}", arguments.label, config.guidance)
                         : "";
  const auto title = fmt::format("{} samples of {} ({}, {} steps{}) against {}", arguments.count,
                                 session.model().file.string(), sample.sampler, sample.steps,
                                 classes, arguments.reference.text());
  print_figures(title, values, arguments.metrics, choice);
  Json json = {{"model", session.model().file.string()},
               {"reference", arguments.reference.text()},
               {"sampler", sample.sampler},
               {"steps", sample.steps},
               {"eta", sample.eta},
               {"spacing", sample.spacing},
               {"last", sample.last},
               {"class", config.classes > 0 ? Json(arguments.label) : Json()},
               {"guidance", config.guidance},
               {"seed", arguments.seed}};
  if (on_training_images) json["on_training_images"] = true;
  add_measured(json, values, arguments.metrics, choice);
  output.write(json);
}

}  // namespace

void declare_diffusion_eval(CLI::App& app) {
  const auto arguments = std::make_shared<DiffusionEvalArguments>();
  declare_sample_arguments(app, *arguments);
  declare_count(app, arguments->count, 2);
  declare_data(app, arguments->reference,
               "images to compare with (folders, tar shards), or statistics (.npz) of nsvq images "
               "statistics; images are resized and cropped as in training")
      ->required();
  declare_limit(app, arguments->limit);
  app.get_option("--limit")->description("compare with only the first N images of --data");
  declare_metric_arguments(app, arguments->metrics, Measured::images);
  app.get_option("--metrics")
      ->description("Fréchet distances, separated by commas (default: fid): " + set_metrics());
  app.callback([arguments] {
    work_on_ranks(*arguments, [&](const Launch& launch, Group& group) {
      evaluate_diffusion(*arguments, launch, group);
    });
  });
}

}  // namespace nsvq
