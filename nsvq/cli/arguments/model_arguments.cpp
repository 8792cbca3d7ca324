#include "nsvq/cli/arguments/model_arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "nsvq/cli/program/memory_advice.h"
#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/data/sources/paths.h"

namespace nsvq {

void declare_model_arguments(CLI::App& app, ModelArguments& arguments) {
  app.add_option(
         "RUN_OR_CHECKPOINT", arguments.model,
         "a run's folder (its newest checkpoint), a checkpoint folder or a model.safetensors")
      ->required();
  declare_best(app, arguments.best);
  declare_data_arguments(app, arguments);
}

void declare_best(CLI::App& app, bool& best) {
  app.add_flag("--best", best,
               "of a run, the checkpoint of its best evaluation (checkpoint.keep_best)");
}

std::filesystem::path model_path(const std::string& model, bool best) {
  if (!best) return model;
  const auto marker = std::filesystem::path(model) / "checkpoints" / "best";
  if (std::filesystem::is_regular_file(marker)) return marker;
  throw UserError(
      "{}: no best checkpoint is marked; training keeps one with checkpoint.keep_best=METRIC",
      model);
}

CLI::Option* declare_data(CLI::App& app, Sources& data, const std::string& help) {
  data.pipes_allowed = true;  // the user wrote them
  const auto at_home = [](const std::string& source) { return change_source(source, home_path); };
  return app.add_option("--data", data.items, help)->transform(at_home);
}

void declare_data_arguments(CLI::App& app, ModelArguments& arguments) {
  declare_data(app, arguments.data,
               "images: folders, files, tar shards ('photos-{00..03}.tar'), 'pipe:COMMAND' or "
               "builtin:dead-leaves")
      ->required();
  app.add_option("--device", arguments.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--batch-size", arguments.batch_size,
                 "images per batch (default: as in training; on a GPU eval and tokenize choose)")
      ->check(CLI::Range(1, 65536));
}

namespace {

/// Processes of one machine share its cores.
LoadedModel load_for_process(const ModelArguments& arguments, const Launch& launch) {
  auto model = load_model_for_inference(model_path(arguments.model, arguments.best));
  if (launch.local_size > 1 && model.config.threads == 0) {
    model.config.threads = default_threads(launch.local_size);
  }
  return model;
}

}  // namespace

ModelOnData::ModelOnData(const ModelArguments& arguments, const Launch& launch)
    : session(load_for_process(arguments, launch),
              choose_device(arguments.device, launch.local_rank)),
      source(open_source(arguments.data,
                         {.pixels = static_cast<uint64_t>(session.config().data.max_pixels)},
                         session.config().data.retries)),
      options(session.loader_options()) {
  options.rank = launch.rank;
  options.world = launch.size;
  if (arguments.batch_size > 0) options.batch_size = arguments.batch_size;
  note_batch_size("--batch-size ", options.batch_size);
}

}  // namespace nsvq
