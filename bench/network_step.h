#pragma once

#include <optional>
#include <string>

#include "nsvq/io/formats/json.h"
#include "nsvq/train/labelled_batches.h"
#include "nsvq/train/loop.h"

namespace nsvq {

/// One batch, [B] numbers of its samples second, for every step.
class OneBatch : public LabelledBatches {
 public:
  explicit OneBatch(TensorBatch batch) : count_(batch[0].size(0)), batch_(std::move(batch)) {}
  const TensorBatch& batch() const { return batch_; }

  std::string name_of(int64_t index) const override { return std::to_string(index); }
  int64_t batches_per_epoch() const override { return 1; }
  int64_t samples() const override { return count_; }
  int64_t step_samples() const override { return count_; }
  void start(int64_t /*epoch*/, int64_t /*batch*/, int64_t /*used*/) override {}
  std::optional<TensorBatch> next() override { return batch_; }

 private:
  int64_t count_;
  TensorBatch batch_;
};

/// Times steps of `loop` with the batch, and prints the time, the rate and the memory.
Json bench_network_steps(Loop& loop, const OneBatch& batches, c10::Device device, int rounds);

}  // namespace nsvq
