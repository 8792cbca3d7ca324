#include "nsvq/cli/arguments/model_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "nsvq/cli/arguments/values.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

std::filesystem::path NamedModel::path() const {
  if (!best) return name;
  const auto marker = std::filesystem::path(name) / kCheckpointsFolder / kBestFile;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(marker, ignored)) return marker;
  throw UserError(
      "{}: no best checkpoint is marked; training keeps one with checkpoint.keep_best=METRIC",
      name);
}

void declare_model(CLI::App& app, NamedModel& model) {
  app.add_option("MODEL", model.name,
                 "a run's folder (its newest checkpoint), a checkpoint or a model.safetensors")
      ->required();
  app.add_flag("--best", model.best,
               "the run's checkpoint of its best evaluation (checkpoint.keep_best)");
}

CLI::Option* declare_data(CLI::App& app, Sources& data, const std::string& help) {
  data.pipes_allowed = true;  // the user wrote them
  const auto at_home = [](const std::string& source) { return change_source(source, home_path); };
  return app.add_option("--data", data.items, help)->transform(at_home)->type_name("SOURCE");
}

void declare_limit(CLI::App& app, int64_t& limit) {
  app.add_option("--limit", limit, "use only the first N images")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000}));
}

void declare_batch_size(CLI::App& app, int64_t& batch_size, const std::string& help) {
  app.add_option("--batch-size", batch_size, help)->check(CLI::Range(1, 65536));
}

void declare_data_arguments(CLI::App& app, ModelArguments& arguments) {
  declare_data(app, arguments.data,
               "images: folders, files, tar shards ('photos-{00..03}.tar'), 'pipe:COMMAND' or "
               "builtin:dead-leaves; SOURCE#test is a part of them (data.split)")
      ->required();
  declare_limit(app, arguments.limit);
  declare_device(app, arguments.device);
  declare_batch_size(
      app, arguments.batch_size,
      "images per batch (default: as in training; on a GPU eval and tokenize choose)");
}

void declare_model_arguments(CLI::App& app, ModelArguments& arguments) {
  declare_model(app, arguments.model);
  declare_data_arguments(app, arguments);
}

void declare_on_training_images(CLI::App& app, ModelArguments& arguments) {
  app.add_flag("--on-training-images", arguments.on_training_images,
               "allow images that the model was trained on, which are refused without it");
}

void declare_shard_arguments(CLI::App& app, ShardArguments& arguments) {
  app.add_option(
         "--classes", arguments.classes,
         "text file of class names, one a line: a folder's class is its line's number, from "
         "0 (default: the folders, sorted)")
      ->type_name("FILE");
  app.add_option("--shard-size", arguments.shard_size,
                 "images per shard, rounded up to whole batches; without --batch-size a batch is "
                 "no larger than a shard")
      ->check(CLI::Range(int64_t{1}, int64_t{10000000}))
      ->capture_default_str();
}

std::vector<NamedFile> named_sources(const Sources& data) {
  std::vector<NamedFile> sources;
  for (const auto& item : data.items) sources.push_back({"--data", NamedPart(item).source});
  return sources;
}

std::shared_ptr<const Source> limited(std::shared_ptr<const Source> source, int64_t limit) {
  if (limit == 0) return source;
  return std::make_shared<LimitedSource>(std::move(source), limit);
}

namespace {

/// The model, with a share of the cores for each process of this machine.
LoadedModel load_for_process(const ModelArguments& arguments, const Launch& launch) {
  auto model = load_model_for_inference(arguments.model.path());
  if (launch.local_size > 1 && model.config.threads == 0) {
    model.config.threads = default_threads(launch.local_size);
  }
  return model;
}

}  // namespace

ModelOnData::ModelOnData(const ModelArguments& arguments, const Launch& launch)
    : session(load_for_process(arguments, launch),
              choose_device(arguments.device, launch.local_rank)),
      source(
          limited(open_source(with_hashes(arguments.data, session.config().data.split),
                              {.pixels = static_cast<uint64_t>(session.config().data.max_pixels)},
                              session.config().data.retries),
                  arguments.limit)),
      options(session.loader_options()) {
  options.rank = launch.rank;
  options.world = launch.size;
  if (arguments.batch_size > 0) options.batch_size = arguments.batch_size;
  note_batch_size("--batch-size ", options.batch_size);
}

std::shared_ptr<const Source> images_for_shards(const ShardArguments& arguments,
                                                const ModelOnData& opened) {
  if (arguments.classes.empty()) return opened.source;
  return std::make_shared<NamedClasses>(opened.source, read_class_names(arguments.classes),
                                        arguments.classes);
}

bool ModelOnData::judged_on_training_images(const ModelArguments& arguments) const {
  return judges_training_images(
      arguments.data,
      fmt::format("{} on --data {}", session.file().string(), arguments.data.text()),
      session.config().data, arguments.on_training_images);
}

}  // namespace nsvq
