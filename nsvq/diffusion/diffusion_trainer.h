#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "nsvq/core/precision.h"
#include "nsvq/diffusion/diffusion_task.h"
#include "nsvq/runs/choice.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

/// A run that trains latent diffusion: the loop with the task of diffusion_task.h and the run's
/// folder.
class DiffusionTrainer {
 public:
  /// Starts a run in a new folder, resumes the one in `run`, or forks `fork_of`.
  DiffusionTrainer(const DiffusionConfig& config, const std::filesystem::path& run,
                   std::shared_ptr<Group> group, Start start = Start::fresh,
                   std::optional<FolderLock> lock = std::nullopt,
                   const std::filesystem::path& fork_of = {});

  Loop& loop() { return loop_; }

 private:
  std::optional<FolderLock> lock_;  ///< until `run_` has it
  c10::Device device_;
  TorchFlags flags_;
  std::optional<Checkpoint> from_;  ///< to resume, until it is loaded
  LatentSpace latents_;
  std::unique_ptr<LabelledBatches> batches_;
  DiffusionTask task_;
  Loop loop_;
  std::unique_ptr<RunDirectory> run_;  ///< null on ranks other than 0
};

/// What the loop needs of the settings.
LoopOptions diffusion_loop_options(const DiffusionConfig& config, c10::Device device);

}  // namespace nsvq
