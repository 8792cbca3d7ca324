#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "nsvq/core/precision.h"
#include "nsvq/data/loader/loader.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/train/loop.h"
#include "nsvq/train/run_setup.h"
#include "nsvq/train/vq/tokenizer_task.h"

namespace nsvq {

/// Training images as batches of one tensor [B, 3, H, W].
class ImageBatchSource : public BatchSource {
 public:
  ImageBatchSource(std::shared_ptr<const Source> source, const LoaderOptions& options)
      : samples_(source->size()),
        step_samples_(options.batch_size * options.world),
        loader_(std::move(source), options) {}

  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t samples() const override { return samples_; }
  int64_t step_samples() const override { return step_samples_; }
  void start(int64_t epoch, int64_t batch, int64_t used) override {
    loader_.start(epoch, batch, used);
  }
  std::optional<TensorBatch> next() override;

 private:
  int64_t samples_, step_samples_;
  Loader loader_;
};

/// A run that trains a tokenizer: the loop (loop.h) with the tokenizer's task (tokenizer_task.h)
/// and the run's folder. Sets torch's process-wide flags by the recipe and restores them.
class Trainer {
 public:
  /// A new run in folder `run`, or the one there from its newest intact checkpoint on (without one,
  /// from its beginning), or a fork of the run `fork_of`, from its newest one on. Takes the run's
  /// lock unless `lock` already holds it. Only rank 0 reads and writes there. Throws UserError,
  /// before it changes anything in the folder, for a recipe that cannot run or that is not the one
  /// of the run to resume.
  Trainer(const TokenizerConfig& config, const std::filesystem::path& run,
          std::shared_ptr<Group> group, Start start = Start::fresh,
          std::optional<FolderLock> lock = std::nullopt, const std::filesystem::path& fork_of = {});

  Loop& loop() { return loop_; }

  /// A step of a phase on images that are on the run's device, outside of the run, for benchmarks
  /// within a SideStreamGuard. Nothing of it is logged or saved.
  void step_for_benchmark(const torch::Tensor& images, int64_t phase = 0);

 private:
  std::optional<FolderLock> lock_;  ///< until `run_` has it
  c10::Device device_;
  TorchFlags flags_;
  std::optional<Checkpoint> from_;  ///< to resume, until it is loaded
  ImageBatchSource batches_;
  TokenizerTask task_;
  Loop loop_;
  std::unique_ptr<RunDirectory> run_;  ///< null on ranks other than 0
};

}  // namespace nsvq
