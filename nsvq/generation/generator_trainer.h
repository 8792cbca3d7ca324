#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "nsvq/generation/generator_task.h"
#include "nsvq/train/network_run.h"

namespace nsvq {

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

  NetworkRun<GenerationConfig> run_;
  std::optional<TokenCodec> codec_;
  TrainingTokens data_;
  GeneratorTask task_;
  Loop loop_;
};

}  // namespace nsvq
