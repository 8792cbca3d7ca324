#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/data/loader/sampler.h"
#include "nsvq/recipe/classes.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// Training data of generating networks: batches of images [B, 3, H, W] fp32, or of what was made
/// of images, tokens [B, h, w] int64 or latents [B, d, h, w] bf16, their positions in the source
/// [B] and, where classes are told, their labels [B], on one device.
class LabelledBatches : public BatchSource {
 public:
  /// Name of the image at a position of the source, for messages.
  virtual std::string name_of(int64_t position) const = 0;
  /// Names of the classes, by number; empty where they have none.
  virtual std::vector<std::string> classes() const { return {}; }
};

/// A loader's batch as LabelledBatches have it.
TensorBatch with_labels(const Batch& batch, const Source& source, int64_t classes,
                        c10::Device device);

/// Images as training data.
class LabelledImages : public LabelledBatches {
 public:
  /// Throws UserError, naming data.train, for an image without one of the classes.
  LabelledImages(std::shared_ptr<const Source> source, const LoaderOptions& options,
                 const ToldClasses& told);
  std::string name_of(int64_t position) const override { return source_->key(position); }
  std::vector<std::string> classes() const override { return source_->classes(); }
  int64_t batches_per_epoch() const override { return loader_.batches_per_epoch(); }
  int64_t samples() const override { return source_->size(); }
  int64_t step_samples() const override { return step_samples_; }
  void start(int64_t epoch, int64_t batch, int64_t used) override {
    loader_.start(epoch, batch, used);
  }
  std::optional<TensorBatch> next() override;

 private:
  std::shared_ptr<const Source> source_;
  int64_t classes_, step_samples_;
  c10::Device device_;
  Loader loader_;
};

/// What was made of images, in memory.
struct LabelledTensor {
  torch::Tensor data;  ///< [n, ...]
  std::vector<int64_t> classes;
  std::vector<std::string> keys;
  std::vector<std::string> class_names = {};
};

/// Training data that is held on the device as a whole, so that a batch costs next to nothing.
/// Images come in the order in which the loader would bring them.
class ResidentBatches : public LabelledBatches {
 public:
  /// Batches have numbers of `type`. `options` matter by batches, seed, ranks and device alone.
  /// Throws UserError, beginning with `from`, for an image without one of the classes.
  ResidentBatches(LabelledTensor contents, at::ScalarType type, const ToldClasses& told,
                  const std::string& from, const LoaderOptions& options);

  std::string name_of(int64_t position) const override { return keys_.at(position); }
  std::vector<std::string> classes() const override { return class_names_; }
  int64_t batches_per_epoch() const override { return sampler_.batches(); }
  int64_t samples() const override { return data_.size(0); }
  int64_t step_samples() const override { return sampler_.batch_size * sampler_.world; }
  void start(int64_t epoch, int64_t batch, int64_t used) override;
  std::optional<TensorBatch> next() override;

 private:
  torch::Tensor data_;    ///< on the device
  torch::Tensor labels_;  ///< [n] int64 on the device; undefined where no classes are told
  at::ScalarType type_;
  std::vector<std::string> keys_, class_names_;
  Sampler sampler_;
  torch::Tensor
      order_;  ///< [n] int64 on the device: positions in the source, in the order of the epoch
  int64_t next_ = 0, used_ = 0;
};

}  // namespace nsvq
