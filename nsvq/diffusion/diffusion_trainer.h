#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "nsvq/core/torch_flags.h"
#include "nsvq/diffusion/diffusion_task.h"
#include "nsvq/runs/run_choice.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

/// A run that trains latent diffusion, as Trainer (nsvq/train/vq/trainer.h) is one of a tokenizer.
class DiffusionTrainer {
 public:
  DiffusionTrainer(const DiffusionConfig& config, const std::filesystem::path& run,
                   std::shared_ptr<Group> group, Start start = Start::fresh,
                   std::optional<FolderLock> lock = std::nullopt);

  /// Which trains.
  Loop& loop() { return loop_; }

 private:
  std::optional<FolderLock> lock_;  ///< until `run_` has it
  c10::Device device_;
  TorchFlags flags_;
  std::optional<Checkpoint> from_;  ///< to resume, until it is loaded
  LatentSpace latents_;
  std::unique_ptr<DiffusionBatches> batches_;
  DiffusionTask task_;
  Loop loop_;
  std::unique_ptr<RunDirectory> run_;  ///< null on ranks other than 0
};

/// What the loop takes of the settings.
LoopOptions diffusion_loop_options(const DiffusionConfig& config, c10::Device device);

/// The settings of a run, with `key=value` overrides: its config.yaml. Throws UserError, also if
/// the folder holds no run.
DiffusionConfig load_diffusion_run_config(const std::filesystem::path& run,
                                          const std::vector<std::string>& overrides = {});

/// For the choice of the run to continue.
RunMatch match_of(const DiffusionConfig& config);

}  // namespace nsvq
