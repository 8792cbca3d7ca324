#include "nsvq/cli/arguments/model_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "nsvq/cli/arguments/memory_advice.h"
#include "nsvq/cli/arguments/values.h"
#include "nsvq/cli/program/command.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/text.h"
#include "nsvq/data/sources/combined_sources.h"
#include "nsvq/data/sources/image_names.h"
#include "nsvq/data/sources/part.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/diffusion/latent_folder.h"
#include "nsvq/io/formats/safetensors_header.h"
#include "nsvq/recipe/run_kind.h"
#include "nsvq/runs/layout/layout.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

namespace fs = std::filesystem;

fs::path NamedModel::path() const {
  if (!best) return name;
  const auto marker = fs::path(name) / kCheckpointsFolder / kBestFile;
  std::error_code ignored;
  if (fs::is_regular_file(marker, ignored)) return marker;
  throw UserError(
      "{}: no best checkpoint is marked; training keeps one with checkpoint.keep_best=METRIC",
      name);
}

void declare_model(CLI::App& app, NamedModel& model) {
  app.add_option("MODEL", model.name,
                 "a run's folder, a checkpoint or a model.safetensors; of a run, its newest "
                 "checkpoint")
      ->required();
  app.add_flag("--best", model.best,
               "a run's best checkpoint, not the newest; training keeps it with "
               "checkpoint.keep_best");
}

CLI::Option* declare_data(CLI::App& app, Sources& data, const std::string& help) {
  data.pipes_allowed = true;  // the user wrote them
  const auto at_home = [](const std::string& source) { return change_source(source, home_path); };
  return app.add_option("--data", data.items, help)->transform(at_home)->type_name("SOURCE");
}

void declare_limit(CLI::App& app, int64_t& limit) {
  app.add_option("--limit", limit, "use only the first N images; all, where there are fewer")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000}));
}

void declare_batch_size(CLI::App& app, int64_t& batch_size, const std::string& help) {
  app.add_option("--batch-size", batch_size, help)->check(CLI::Range(1, 65536));
}

void declare_data_arguments(CLI::App& app, ModelArguments& arguments) {
  declare_data(app, arguments.data,
               "images: folders, files, tar shards ('a-{00..03}.tar'), 'pipe:COMMAND' or "
               "builtin:dead-leaves; SOURCE#test is a part of them (data.split)")
      ->required();
  declare_limit(app, arguments.limit);
  declare_device(app, arguments.device);
  declare_batch_size(
      app, arguments.batch_size,
      "images per batch (default: as in training); on a GPU eval, tokenize and encode choose");
}

void declare_model_arguments(CLI::App& app, ModelArguments& arguments) {
  declare_model(app, arguments.model);
  declare_data_arguments(app, arguments);
}

void declare_on_training_images(CLI::App& app, ModelArguments& arguments) {
  app.add_flag("--on-training-images", arguments.on_training_images,
               "allow images that the model was trained on, which are refused without it")
      ->group(kRare);
}

void declare_shard_arguments(CLI::App& app, ShardArguments& arguments) {
  app.add_option(
         "--classes", arguments.classes,
         "text file of class names, one a line: a folder's class is its line's number, from "
         "0 (default: the folders, sorted)")
      ->type_name("FILE")
      ->group(kRare);
  app.add_option("--shard-size", arguments.shard_size,
                 "images per shard (default: a sixteenth of all, from 256 to 4096); rounded up to "
                 "whole batches; without --batch-size a batch is no larger than N")
      ->check(CLI::Range(int64_t{1}, int64_t{10000000}));
}

std::vector<NamedFile> named_sources(const Sources& data) {
  std::vector<NamedFile> sources;
  for (const auto& item : data.items) sources.push_back({"--data", NamedPart(item).source});
  return sources;
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

ShardSizes choose_shard_sizes(const ShardArguments& arguments, const ModelOnData& opened,
                              const TransformOptions& transform,
                              const std::optional<ShardSizes>& begun) {
  constexpr int64_t least = 256, most = 4096, parts = 16;
  const int64_t given = arguments.shard_size;
  const auto usual = std::clamp(opened.source->size() / parts, least, most);
  ShardSizes sizes = {static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(usual))),
                      std::min(opened.session.batch_size(transform), given > 0 ? given : most)};
  if (begun) sizes = *begun;
  if (given > 0) sizes.shard = given;
  if (arguments.model.batch_size > 0) sizes.batch = arguments.model.batch_size;
  return sizes;
}

bool ModelOnData::judged_on_training_images(const ModelArguments& arguments) const {
  return judges_training_images(
      arguments.data,
      fmt::format("{} on --data {}", session.file().string(), arguments.data.text()),
      session.config().data, arguments.on_training_images);
}

namespace {

bool is_model_file(const fs::path& file) {
  if (file.extension() != ".safetensors") return false;
  try {
    return read_safetensors_header(file).metadata.contains(kModelConfigKey);
  } catch (const UserError&) {
    return false;  // reading its tokens says what is wrong
  }
}

/// Whether images or tar shards are among the first files below a folder.
bool holds_images(const fs::path& folder) {
  constexpr int most = 1000;
  int seen = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && seen++ < most; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (is_image_name(name) || is_shard_name(name)) return true;
  }
  return false;
}

/// What a folder without a manifest of tokens holds; empty if unknown.
std::string describe_folder(const fs::path& folder) {
  std::error_code ignored;
  if (holds_run(folder)) return "a run";
  if (fs::exists(folder / kModelFile, ignored)) return "a model";
  if (fs::exists(folder / latent_shard_name(0), ignored)) return "latents of nsvq encode";
  if (fs::exists(folder / kTokenManifest, ignored)) return "";
  return holds_images(folder) ? "a folder of images" : "";
}

std::string describe_file(const fs::path& file) {
  const auto name = file.filename().string();
  if (is_shard_name(name)) return "an image tar";
  if (is_image_name(name)) return "a picture";
  if (is_model_file(file)) return "a model";
  return file.extension() == ".yaml" ? "a recipe" : "";
}

}  // namespace

void require_tokens_named(const std::string& name) {
  std::error_code ignored;
  const bool folder = fs::is_directory(name, ignored);
  if (!folder && !fs::is_regular_file(name, ignored)) return;
  const auto what = folder ? describe_folder(name) : describe_file(name);
  if (what.empty()) return;
  const auto word = shown_shell_word(name);
  const bool images = what == "an image tar" || what == "a picture" || what == "a folder of images";
  const bool model = what == "a run" || what == "a model";
  throw UserError("{}: {}, no tokens; {}nsvq tokenize {} --data {} --out DIR", name, what,
                  images ? "tokenize it first: " : "tokens are made by ", model ? word : "MODEL",
                  images ? word : "IMAGES");
}

}  // namespace nsvq
