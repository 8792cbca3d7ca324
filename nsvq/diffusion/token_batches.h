#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/sampler.h"
#include "nsvq/diffusion/diffusion_batches.h"

namespace nsvq {

/// A folder of tokens (`nsvq tokenize`) as training data. All tokens are held on the device, four
/// bytes each: a batch costs next to nothing. Images come in the order in which the loader would
/// bring them.
class TokenBatches : public DiffusionBatches {
 public:
  /// Of `options` only batches, seed, ranks and the device matter. Throws UserError if the folder
  /// is incomplete or damaged, of another model or another grid than `grid` [h, w], or without
  /// classes below `classes` where there are any.
  TokenBatches(const std::filesystem::path& folder, const LatentSpace& latents,
               const std::vector<int64_t>& grid, int64_t classes, const LoaderOptions& options);

  std::string name_of(int64_t place) const override { return keys_.at(place); }
  int64_t batches_per_epoch() const override { return sampler_.batches(); }
  int64_t samples() const override { return tokens_.size(0); }
  int64_t step_samples() const override { return sampler_.batch_size * sampler_.world; }
  void start(int64_t epoch, int64_t batch, int64_t used) override;
  std::optional<TensorBatch> next() override;

 private:
  void check_labels(const std::filesystem::path& folder, int64_t classes) const;

  torch::Tensor tokens_;  ///< [n, h, w] int32 on the device
  torch::Tensor labels_;  ///< [n] int64 on the device; undefined without classes
  std::vector<int64_t> classes_of_;
  std::vector<std::string> keys_;
  Sampler sampler_;
  torch::Tensor order_;  ///< [n] int64 on the device: places in the epoch's order
  int64_t next_ = 0, used_ = 0;
};

}  // namespace nsvq
