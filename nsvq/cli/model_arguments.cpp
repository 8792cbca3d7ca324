#include "nsvq/cli/model_arguments.h"

#include <CLI/CLI.hpp>

#include "nsvq/core/device.h"
#include "nsvq/train/evaluate.h"
#include "nsvq/train/setup.h"

namespace nsvq {

void declare_model_arguments(CLI::App& app, ModelArguments& arguments) {
  app.add_option(
         "RUN_OR_CHECKPOINT", arguments.model,
         "a run's folder (its newest checkpoint), a checkpoint folder or a model.safetensors")
      ->required();
  declare_data_arguments(app, arguments);
}

void declare_data_arguments(CLI::App& app, ModelArguments& arguments) {
  app.add_option(
         "--data", arguments.data,
         "images: a folder, a file, tar shards (photos-{00..03}.tar) or builtin:dead-leaves")
      ->required();
  app.add_option("--device", arguments.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--batch-size", arguments.batch_size,
                 "images at a time (default: as in training; on a GPU eval and tokenize choose)")
      ->check(CLI::Range(1, 65536));
}

LoadedModel load_for_use(const std::string& path) {
  auto model = load_model(path);
  // As many as this machine has, not the one that trained.
  model.config.threads = model.config.data.threads = 0;
  // Results repeat, and no algorithms are timed for a short last batch.
  model.config.train.deterministic = true;
  return model;
}

ModelOnData open(const ModelArguments& arguments, const Group& group) {
  auto model = load_for_use(arguments.model);
  prepare_torch(model.config);
  const auto device = choose_device(arguments.device);
  place(model.tokenizer, model.config, device);
  auto options = evaluation_options(model.config, group, device);
  if (arguments.batch_size > 0) options.batch_size = arguments.batch_size;
  return {std::move(model), device, open_source(arguments.data), options};
}

}  // namespace nsvq
