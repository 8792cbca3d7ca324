#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "nsvq/diffusion/diffusion_task.h"
#include "nsvq/train/network_run.h"

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
  NetworkRun<DiffusionConfig> run_;
  LatentSpace latents_;
  std::unique_ptr<LabelledBatches> batches_;
  DiffusionTask task_;
  Loop loop_;
};

}  // namespace nsvq
