#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "nsvq/core/precision.h"
#include "nsvq/generation/generator_task.h"
#include "nsvq/runs/choice.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/run_setup.h"

namespace nsvq {

LoopOptions generator_loop_options(const GenerationConfig& config, c10::Device device);

/// A run that trains a generator of tokens: the loop with the task of generator_task.h and the
/// run's folder.
class GeneratorTrainer {
 public:
  /// Starts a run in a new folder, resumes the one in `run`, or forks `fork_of`.
  GeneratorTrainer(const GenerationConfig& config, const std::filesystem::path& run,
                   std::shared_ptr<Group> group, Start start = Start::fresh,
                   std::optional<FolderLock> lock = std::nullopt,
                   const std::filesystem::path& fork_of = {});

  Loop& loop() { return loop_; }

 private:
  TokenCodec* codec() { return codec_ ? &*codec_ : nullptr; }

  std::optional<FolderLock> lock_;  ///< until `run_` has it
  c10::Device device_;
  TorchFlags flags_;
  std::optional<Checkpoint> from_;  ///< to resume, until it is loaded
  std::optional<TokenCodec> codec_;
  TrainingTokens data_;
  GeneratorTask task_;
  Loop loop_;
  std::unique_ptr<RunDirectory> run_;  ///< null on ranks other than 0
};

}  // namespace nsvq
