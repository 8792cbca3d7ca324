#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/loader.h"
#include "nsvq/data/loader/sampler.h"
#include "nsvq/diffusion/config.h"
#include "nsvq/diffusion/latent_space.h"
#include "nsvq/dist/group.h"
#include "nsvq/train/task.h"

namespace nsvq {

/// Training data of latent diffusion: batches of images [B, 3, H, W] fp32, tokens [B, h, w] int64
/// or latents [B, d, h, w] bf16, their positions in the source [B] and, with classes, their labels
/// [B], on one device.
class DiffusionBatches : public BatchSource {
 public:
  /// Name of the image at a position of the source, for messages.
  virtual std::string name_of(int64_t position) const = 0;
  /// Names of the classes, by number; empty where they have none.
  virtual std::vector<std::string> classes() const { return {}; }
};

/// What the settings name: images (data.train), tokens (diffusion.tokens) or latents
/// (diffusion.cached). Throws UserError.
std::unique_ptr<DiffusionBatches> make_diffusion_batches(const DiffusionConfig& config,
                                                         const LatentSpace& latents,
                                                         const Group& group, c10::Device device);

/// Throws UserError, naming the key of the source and an image, unless every image has a class
/// below `classes`; nothing without classes.
void require_classes(const Source& source, int64_t classes, const std::string& key);

/// The images of data.val with classes numbered as those of the training data, `names`, which may
/// have more of them. Throws UserError for a class that these lack.
std::shared_ptr<const Source> numbered_as(std::shared_ptr<const Source> source,
                                          const std::vector<std::string>& names);

/// A loader's batch as DiffusionBatches have it.
TensorBatch with_labels(const Batch& batch, const Source& source, int64_t classes,
                        c10::Device device);

/// Images as training data.
class LabelledImages : public DiffusionBatches {
 public:
  LabelledImages(std::shared_ptr<const Source> source, const LoaderOptions& options,
                 int64_t classes);
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

/// Training data that is held on the device as a whole, so that a batch costs next to nothing.
/// Images come in the order in which the loader would bring them.
class ResidentBatches : public DiffusionBatches {
 public:
  struct Contents {
    torch::Tensor data;  ///< [n, ...]
    std::vector<int64_t> classes;
    std::vector<std::string> keys;
    std::vector<std::string> class_names = {};
  };
  /// Batches have numbers of `type`. `options` matter by batches, seed, ranks and device alone.
  /// Throws UserError, beginning with `from`, for an image without a class below `classes` where
  /// there are any.
  ResidentBatches(Contents contents, at::ScalarType type, int64_t classes, const std::string& from,
                  const LoaderOptions& options);

  std::string name_of(int64_t position) const override { return keys_.at(position); }
  std::vector<std::string> classes() const override { return class_names_; }
  int64_t batches_per_epoch() const override { return sampler_.batches(); }
  int64_t samples() const override { return data_.size(0); }
  int64_t step_samples() const override { return sampler_.batch_size * sampler_.world; }
  void start(int64_t epoch, int64_t batch, int64_t used) override;
  std::optional<TensorBatch> next() override;

 private:
  torch::Tensor data_;    ///< on the device
  torch::Tensor labels_;  ///< [n] int64 on the device; undefined without classes
  at::ScalarType type_;
  std::vector<std::string> keys_, class_names_;
  Sampler sampler_;
  torch::Tensor
      order_;  ///< [n] int64 on the device: positions in the source, in the order of the epoch
  int64_t next_ = 0, used_ = 0;
};

/// A folder of tokens (`nsvq tokenize`), of which each takes four bytes. Throws UserError if the
/// folder is incomplete or damaged, of another model or another grid than `shape` [d, h, w] has.
ResidentBatches::Contents read_tokens_to_learn(const std::string& folder,
                                               const LatentSpace& latents,
                                               const std::vector<int64_t>& shape, int64_t size);

/// A folder of latents (`nsvq encode`), of which each number takes two bytes. Throws UserError as
/// for tokens.
ResidentBatches::Contents read_latents_to_learn(const std::string& folder,
                                                const LatentSpace& latents,
                                                const std::vector<int64_t>& shape, int64_t size);

}  // namespace nsvq
