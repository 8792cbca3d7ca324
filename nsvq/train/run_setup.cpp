#include "nsvq/train/run_setup.h"

#include <algorithm>
#include <utility>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/log.h"
#include "nsvq/runs/run_folder.h"
#include "nsvq/train/checkpoint_broadcast.h"

namespace nsvq {

namespace fs = std::filesystem;

TorchSettings settings_of_rank(TorchSettings settings, const Group& group) {
  if (settings.threads == 0 && group.local_size() > 1) {
    settings.threads = default_threads(group.local_size());
  }
  return settings;
}

std::optional<FolderLock> lock_for(const Group& group, Start start, const fs::path& run,
                                   std::optional<FolderLock> lock) {
  if (lock || start == Start::fresh || !group.leads()) return lock;
  if (!holds_run(run)) throw UserError("{}: holds no run to resume", run.string());
  return lock_run(run);
}

std::optional<Checkpoint> checkpoint_to_resume(
    const fs::path& run, Start start, Group& group,
    const std::function<void(Checkpoint&, const fs::path&)>& check) {
  std::optional<Checkpoint> checkpoint;
  if (start == Start::resume && group.leads()) {
    if (const auto folder = newest_checkpoint(run)) {
      checkpoint = load_checkpoint(*folder);
      if (const auto name = fmt::format("step-{}", checkpoint->state.step);
          folder->filename() != name) {
        throw UserError("{0}: state.json: the checkpoint is of step {1}; rename the folder to {2}",
                        folder->string(), checkpoint->state.step, name);
      }
      check(*checkpoint, *folder);
    }
  }
  return broadcast_checkpoint(std::move(checkpoint), group);
}

std::unique_ptr<RunDirectory> open_run_directory(const fs::path& run, Start start,
                                                 std::optional<FolderLock> lock,
                                                 const std::string& settings, const RunState& state,
                                                 const Checkpoint* from) {
  if (start == Start::fresh) {
    return std::make_unique<RunDirectory>(RunDirectory::create(run, settings));
  }
  if (from) {
    const auto name = fmt::format("step-{}", from->state.step);
    log("resuming {} from {}", run.string(), (run / "checkpoints" / name).string());
  } else {
    log("{}: no checkpoint to continue from, so the run starts over", run.string());
  }
  const bool goes_on = !state.finished || state.evaluation_pending;
  return std::make_unique<RunDirectory>(RunDirectory::resume(
      run, std::move(*lock), goes_on ? std::optional(settings) : std::nullopt,
      from ? std::optional(from->logs) : std::nullopt, from ? from->state.step : -1));
}

}  // namespace nsvq
