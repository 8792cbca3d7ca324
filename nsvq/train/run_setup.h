#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/core/torch_flags.h"
#include "nsvq/dist/group.h"
#include "nsvq/runs/checkpoint.h"
#include "nsvq/runs/run_choice.h"
#include "nsvq/runs/run_directory.h"

namespace nsvq {

// What a run of any task does before its first step.

/// `settings` for one of several processes that share a machine's cores.
TorchSettings settings_of_rank(TorchSettings settings, const Group& group);

/// `lock` or, of rank 0 where there is none and a run is to resume, the run's, before anything of
/// it is read: another process may be writing to it. Throws UserError.
std::optional<FolderLock> lock_for(const Group& group, Start start,
                                   const std::filesystem::path& run,
                                   std::optional<FolderLock> lock);

/// On every rank the newest undamaged checkpoint of a run to resume, which rank 0 reads; nothing if
/// there is none. `check` throws UserError for one that does not fit the settings.
std::optional<Checkpoint> checkpoint_to_resume(
    const std::filesystem::path& run, Start start, Group& group,
    const std::function<void(Checkpoint& checkpoint, const std::filesystem::path& folder)>& check);

/// The run's folder, new or resumed from a checkpoint (null: from its beginning), where the loop is
/// at `state`. A run that is finished keeps its settings.
std::unique_ptr<RunDirectory> open_run_directory(const std::filesystem::path& run, Start start,
                                                 std::optional<FolderLock> lock,
                                                 const std::string& settings, const RunState& state,
                                                 const Checkpoint* from);

}  // namespace nsvq
