#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/dist/group.h"
#include "nsvq/recipe/run_config.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/choice.h"
#include "nsvq/runs/directory.h"
#include "nsvq/runs/fork.h"
#include "nsvq/train/loop.h"

namespace nsvq {

// What a run of any task does before its first step.

/// Images of one rank in a step. Throws UserError if train.global_batch cannot be dealt evenly.
int64_t rank_batch(const TrainConfig& train, int64_t ranks);

/// How images reach training: shuffled, cropped and flipped as in the recipe, delivered on
/// `device`.
LoaderOptions training_loader_options(const RunConfig& config, const Group& group,
                                      c10::Device device = at::kCPU);

/// Torch's flags for training by a recipe.
TorchSettings training_torch_settings(const RunConfig& config, Precision precision);

/// `settings` for one of several processes that share a machine's cores.
TorchSettings settings_of_rank(TorchSettings settings, const Group& group);

/// `lock`; without one, on rank 0 of a run to resume, the run's lock, before anything of the run is
/// read: another process may be writing to it. Throws UserError.
std::optional<FolderLock> lock_for(const Group& group, Start start,
                                   const std::filesystem::path& run,
                                   std::optional<FolderLock> lock);

/// The newest intact checkpoint of a run to resume or to fork, on every rank though rank 0 alone
/// reads it; nullopt if there is none. `check` throws UserError for one that does not fit the
/// settings.
std::optional<Checkpoint> checkpoint_to_resume(
    const std::filesystem::path& run, Start start, Group& group,
    const std::function<void(Checkpoint& checkpoint, const std::filesystem::path& folder)>& check);

/// Lets `loop` go on from the checkpoint of a run that is forked. Throws UserError where it does
/// not fit the settings, or the budget `train` is spent.
void load_forked(Loop& loop, const std::optional<Checkpoint>& from, const TrainConfig& train,
                 const std::filesystem::path& run);

/// Makes the folder of a fork, with a line in the log on what it changes (changed_settings), and
/// claims it.
FolderLock begin_fork(const std::filesystem::path& run, const std::filesystem::path& folder,
                      const Checkpoint& from, const ForkContents& contents,
                      const std::vector<std::string>& changes);

/// The run's folder, new or resumed from a checkpoint (null: from its beginning), where the loop is
/// at `state`. A run that is finished keeps its settings.
std::unique_ptr<RunDirectory> open_run_directory(const std::filesystem::path& run, Start start,
                                                 std::optional<FolderLock> lock,
                                                 const std::string& settings, const RunState& state,
                                                 const Checkpoint* from);

}  // namespace nsvq
