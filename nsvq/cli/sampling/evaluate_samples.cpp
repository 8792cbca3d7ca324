#include "nsvq/cli/sampling/evaluate_samples.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "nsvq/cli/arguments/model_arguments.h"
#include "nsvq/cli/output/json_output.h"
#include "nsvq/core/error.h"
#include "nsvq/core/progress.h"
#include "nsvq/core/text.h"
#include "nsvq/data/data_config.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/io/formats/json.h"
#include "nsvq/metrics/compare_images.h"
#include "nsvq/metrics/metric_set.h"
#include "nsvq/metrics/sets/image_sets.h"
#include "nsvq/recipe/loader_options.h"

namespace nsvq {

namespace {

/// Figures of sets: the two sets differ in their number of images.
MetricChoice choose_set_metrics(MetricArguments& metrics, const Sources& reference, int64_t limit) {
  if (metrics.metrics.empty()) metrics.metrics = "fid";
  if (reference.text().ends_with(".npz")) {
    metrics.statistics = reference.text();
    metrics.images = ReferenceImages::in_file;
  }
  const auto choice = choose_metrics(metrics, Measured::images);
  if (choice.reference && limit > 0) {
    throw UserError("--limit: {} holds statistics, of which no image can be left out",
                    reference.text());
  }
  for (const auto& name : choice.names) {
    if (is_of_sets(name)) continue;
    throw UserError("--metrics: {} compares images one by one, and samples have no partners", name);
  }
  return choice;
}

std::string set_metrics() {
  std::string names;
  for (const auto& kind : metric_kinds()) {
    if (is_of_sets(kind.name)) names += (names.empty() ? "" : ", ") + kind.name;
  }
  return names;
}

/// Adds the reference's images, resized and cropped as for training, and returns their number.
int64_t add_reference(const EvaluationArguments& arguments, const SampledModel& model, Group& group,
                      MetricSet& metrics) {
  const auto& config = model.config;
  const auto source = limited(
      open_source(with_hashes(arguments.reference, config.data.split),
                  {.pixels = static_cast<uint64_t>(config.data.max_pixels)}, config.data.retries),
      arguments.limit);
  auto options = inference_loader_options(config, model.device);
  options.batch_size = model.batch_size;
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

/// Adds this rank's share of a reference file's images, as they are there.
void add_reference(const Source& images, const Group& group, MetricSet& metrics) {
  const int64_t stride = group.size();
  const int64_t count = (images.size() - group.rank() + stride - 1) / stride;
  for_each_batch(
      "reference", count,
      [&](int64_t i) {
        return ImagePair{images.load(group.rank() + i * stride), {}};
      },
      [&](const EvalBatch& batch) { metrics.add(batch); });
}

/// What is known of the samples' classes, for outputs.
std::string classes_of_samples(const JudgedModel& model, int64_t count) {
  if (model.classes == 0) return "";
  if (model.label == "random") return fmt::format("{} classes at random", model.classes);
  if (model.label != "all") return "all of class " + model.label;
  const int64_t each = count / model.classes;
  if (count % model.classes == 0) {
    return fmt::format("{} classes of {} each", model.classes, count_of(each, "image"));
  }
  return fmt::format("{} classes in turn, of {} or {} images", model.classes, each, each + 1);
}

/// Whether the reference has images that the model was trained on, as is usual for FID; logged.
bool has_training_images(const EvaluationArguments& arguments, const JudgedModel& model) {
  const auto& sampled = model.sampled;
  return model.of_training_images &&
         judges_training_images(arguments.reference, sampled.file, sampled.config.data,
                                /*on_purpose=*/true);
}

/// Samples and adds the batches of this rank; ranks take them in turn.
void add_samples(const EvaluationArguments& arguments, const SampledModel& model, Group& group,
                 MetricSet& metrics) {
  Progress progress("sample", arguments.count, "images");
  const int64_t batch = model.batch_size, stride = batch * group.size();
  for (int64_t first = batch * group.rank(); first < arguments.count; first += stride) {
    const int64_t end = std::min(first + batch, arguments.count);
    metrics.add({{}, model.images(first, end), {}});
    progress.update(std::min(first + stride, arguments.count));
  }
  progress.finish();
}

}  // namespace

void evaluate_samples(EvaluationArguments arguments, Group& group,
                      const std::function<JudgedModel()>& open) {
  if (!group.leads()) arguments.metrics.json.file = "";
  const auto choice = choose_set_metrics(arguments.metrics, arguments.reference, arguments.limit);
  require_images(choice.names, arguments.count, "--count");
  JsonOutput output(arguments.metrics.json);
  const auto model = open();
  const auto& sampled = model.sampled;
  const torch::NoGradGuard no_grad;
  MetricSet metrics(choice.names, {.conventions = choice.conventions,
                                   .codes = 0,
                                   .device = sampled.device,
                                   .reference = choice.reference});
  const bool on_training_images = !choice.reference && has_training_images(arguments, model);
  const int64_t known = choice.reference ? choice.reference->image_count()
                                         : add_reference(arguments, sampled, group, metrics);
  if (choice.reference && choice.reference->images) {
    add_reference(*choice.reference->images, group, metrics);
  }
  add_samples(arguments, sampled, group, metrics);
  metrics.join(group);
  if (!group.leads()) return;
  auto values = metrics.values();
  require_all(choice, values);
  values["images"] = static_cast<double>(arguments.count);
  if (known > 0) values["reference_images"] = static_cast<double>(known);
  warn_of_few_images(choice, values);
  const auto title = fmt::format("{} samples of {} ({}) against {}", arguments.count, sampled.file,
                                 model.sampling, arguments.reference.text());
  const SetNames sets{arguments.reference.text(), classes_of_samples(model, arguments.count)};
  print_figures(title, values, choice, sets);
  Json json = {{"model", sampled.file}, {"reference", arguments.reference.text()}};
  json.update(model.settings);
  if (on_training_images) json["on_training_images"] = true;
  add_measured(json, values, arguments.metrics, choice, sets);
  output.write(json);
}

void declare_evaluation(CLI::App& app, EvaluationArguments& arguments) {
  declare_count(app, arguments.count, 2);
  declare_data(app, arguments.reference,
               "images to compare with (folders, tar shards), or a file (.npz) of nsvq images "
               "statistics or of ADM's evaluator; images of folders and shards are resized and "
               "cropped as in training")
      ->required();
  declare_limit(app, arguments.limit);
  app.get_option("--limit")->description("compare with only the first N images of --data");
  declare_metric_arguments(app, arguments.metrics, Measured::images);
  app.get_option("--metrics")
      ->description("figures of sets, separated by commas (default: fid): " + set_metrics());
}

}  // namespace nsvq
