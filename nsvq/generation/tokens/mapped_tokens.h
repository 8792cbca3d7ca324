#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/data/loader/sampler.h"
#include "nsvq/generation/tokens/token_set.h"
#include "nsvq/train/labelled_batches.h"

namespace nsvq {

/// Tokens of a folder as training data, which stay in its files: a batch is gathered by the host
/// and copied while the device is at work. Images come in the order in which ResidentBatches has
/// them.
class MappedTokens : public LabelledBatches {
 public:
  /// `set` has shards. Throws UserError, beginning with `from`, for an image without one of the
  /// classes.
  MappedTokens(TokenSet set, const ToldClasses& told, const std::string& from,
               const LoaderOptions& options);

  std::string name_of(int64_t position) const override { return set_.images.keys.at(position); }
  std::vector<std::string> classes() const override { return set_.images.class_names; }
  int64_t batches_per_epoch() const override { return sampler_.batches(); }
  int64_t samples() const override { return sampler_.images; }
  int64_t step_samples() const override { return sampler_.batch_size * sampler_.world; }
  void start(int64_t epoch, int64_t batch, int64_t used) override;
  std::optional<TensorBatch> next() override;

 private:
  torch::Tensor on_device(const std::vector<int64_t>& numbers) const;

  TokenSet set_;
  std::vector<int64_t> ends_;  ///< numbers of images up to the end of each shard
  bool labelled_;
  c10::Device device_;
  Sampler sampler_;
  std::vector<int64_t> order_;
  int64_t next_ = 0, used_ = 0;
};

}  // namespace nsvq
