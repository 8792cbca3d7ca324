#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/sampler.h"
#include "nsvq/diffusion/diffusion_batches.h"

namespace nsvq {

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
