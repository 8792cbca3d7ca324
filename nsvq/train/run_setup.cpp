#include "nsvq/train/run_setup.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/core/random.h"
#include "nsvq/recipe/loader_options.h"
#include "nsvq/runs/folder.h"
#include "nsvq/runs/layout/layout.h"

namespace nsvq {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

json shapes_of(const TensorMap& tensors) {
  json shapes = json::object();
  for (const auto& [name, tensor] : tensors) {
    shapes[name] = {{"type", static_cast<int>(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()}};
  }
  return shapes;
}

TensorMap empty_tensors(const json& shapes) {
  TensorMap tensors;
  for (const auto& [name, one] : shapes.items()) {
    const auto type = static_cast<at::ScalarType>(one.at("type").get<int>());
    tensors[name] = at::empty(one.at("shape").get<std::vector<int64_t>>(), type);
  }
  return tensors;
}

std::string describe(const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint) return json{{"present", false}}.dump();
  return json{{"present", true},
              {"state", state_to_json(checkpoint->state, checkpoint->logs)},
              {"metadata", checkpoint->model.metadata},
              {"model", shapes_of(checkpoint->model.tensors)},
              {"training", shapes_of(checkpoint->training)}}
      .dump();
}

/// Rank 0's checkpoint on every rank, so that only rank 0 reads files; nullopt if it has none.
std::optional<Checkpoint> broadcast_checkpoint(std::optional<Checkpoint> checkpoint, Group& group) {
  if (group.size() == 1) return checkpoint;
  const auto told = json::parse(broadcast_text(group, describe(checkpoint)));
  if (!told.at("present").get<bool>()) return std::nullopt;
  if (!group.leads()) {
    auto [state, logs] = state_from_json(told.at("state"), "rank 0's checkpoint");
    checkpoint = Checkpoint{state, logs, {}, empty_tensors(told.at("training"))};
    checkpoint->model.tensors = empty_tensors(told.at("model"));
    checkpoint->model.metadata = told.at("metadata").get<std::map<std::string, std::string>>();
  }
  for (const auto* tensors : {&checkpoint->model.tensors, &checkpoint->training}) {
    for (const auto& [name, tensor] : *tensors) group.broadcast({tensor});
  }
  return checkpoint;
}

}  // namespace

int64_t rank_batch(const TrainConfig& train, int64_t ranks) {
  if (train.global_batch == 0) return train.batch_size * train.accumulate;
  const int64_t parts = ranks * train.accumulate;
  if (train.global_batch % parts == 0) return train.global_batch / ranks;
  throw UserError(
      "train.global_batch: {} images cannot be dealt evenly to {} processes with train.accumulate "
      "{}; use a multiple of {}",
      train.global_batch, ranks, train.accumulate, parts);
}

TorchSettings training_torch_settings(const RunConfig& config, Precision precision) {
  return {.threads = config.threads,
          .deterministic = config.train.deterministic,
          .tf32_convolutions = precision != Precision::fp32};
}

LoaderOptions training_loader_options(const RunConfig& config, const Group& group,
                                      c10::Device device) {
  auto options = inference_loader_options(config, device, group.size());
  options.transform.crop = config.data.crop == "random" ? Crop::random : Crop::center;
  options.transform.flip = config.data.flip;
  options.shuffle = true;
  options.batch_size = rank_batch(config.train, group.size());
  options.seed = seed_for(config.seed, Draw::batches);
  options.rank = group.rank();
  options.world = group.size();
  return options;
}

TorchSettings settings_of_rank(TorchSettings settings, const Group& group) {
  if (settings.threads == 0 && group.local_size() > 1) {
    settings.threads = default_threads(group.local_size());
  }
  return settings;
}

std::optional<FolderLock> lock_for(const Group& group, Start start, const fs::path& run,
                                   std::optional<FolderLock> lock) {
  if (lock || start != Start::resume || !group.leads()) return lock;
  if (!holds_run(run)) throw UserError("{}: holds no run to resume", run.string());
  return lock_run(run);
}

std::optional<Checkpoint> checkpoint_to_resume(
    const fs::path& run, Start start, Group& group,
    const std::function<void(Checkpoint&, const fs::path&)>& check) {
  std::optional<Checkpoint> checkpoint;
  if (start != Start::fresh && group.leads()) {
    if (const auto folder = newest_checkpoint(run)) {
      checkpoint = load_checkpoint(*folder);
      if (const auto name = checkpoint_name(checkpoint->state.step); folder->filename() != name) {
        throw UserError("{0}: state.json: the checkpoint is of step {1}; rename the folder to {2}",
                        folder->string(), checkpoint->state.step, name);
      }
      check(*checkpoint, *folder);
    }
  }
  return broadcast_checkpoint(std::move(checkpoint), group);
}

void load_forked(Loop& loop, const std::optional<Checkpoint>& from, const TrainConfig& train,
                 const fs::path& run) {
  if (!from) throw UserError("{}: has no checkpoint yet to go on from", run.string());
  try {
    loop.load(*from, run.string());
  } catch (const UserError& error) {
    throw UserError("--fork: the state does not fit the changed settings: {}", error.what());
  }
  const auto& state = loop.state();
  const bool by_steps = train.steps > 0;
  const int64_t budget = by_steps ? train.steps : train.epochs;
  const int64_t done = by_steps ? state.step : state.epoch;
  if (done < budget || state.evaluation_pending) return;
  throw UserError("{}: has spent its budget; give the fork a larger one: train.{}={} or more",
                  run.string(), by_steps ? "steps" : "epochs", done + 1);
}

FolderLock begin_fork(const fs::path& run, const fs::path& folder, const Checkpoint& from,
                      const ForkContents& contents, const std::vector<std::string>& changes) {
  make_fork(run, folder, from, contents);
  log("forked {} from {}: {}", folder.string(),
      (run / kCheckpointsFolder / checkpoint_name(from.state.step)).string(),
      changes.empty() ? "no setting changed"
                      : fmt::format("{} (command line)", fmt::join(changes, ", ")));
  return lock_run(folder);
}

std::unique_ptr<RunDirectory> open_run_directory(const fs::path& run, Start start,
                                                 std::optional<FolderLock> lock,
                                                 const std::string& settings, const RunState& state,
                                                 const Checkpoint* from) {
  if (start == Start::fresh) {
    return std::make_unique<RunDirectory>(RunDirectory::create(run, settings));
  }
  if (from) {
    const auto name = checkpoint_name(from->state.step);
    log("resuming {} from {}", run.string(), (run / kCheckpointsFolder / name).string());
  } else {
    log("{}: no checkpoint to continue from, so the run starts over", run.string());
  }
  const bool goes_on = !state.finished || state.evaluation_pending;
  return std::make_unique<RunDirectory>(RunDirectory::resume(
      run, std::move(*lock), goes_on ? std::optional(settings) : std::nullopt,
      from ? std::optional(from->logs) : std::nullopt, from ? from->state.step : -1));
}

}  // namespace nsvq
