#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/train/meter.h"

namespace nsvq {

/// Steps that were skipped as non-finite since the guard was read last.
struct SkippedSteps {
  int64_t first = 0;                     ///< counted from 0 at the last reading
  int64_t count = 0;                     ///< without the overflows
  int64_t overflows = 0;                 ///< fp16 overflows, after which the loss scale was halved
  std::map<std::string, double> values;  ///< scalars of the first one
  std::vector<torch::Tensor> batch;      ///< and its batch
};

/// Where values first became non-finite.
struct NonfiniteLocation {
  std::string text;  ///< for the log
  bool own = false;  ///< caused by this rank's data, weights or forward pass, not received
};

/// Skips steps with non-finite losses or gradients. The decision is a boolean on the device that
/// the optimizers read, so there is no host synchronisation; tensors that a step changes by other
/// ways than an optimizer are rolled back.
class StepGuard {
 public:
  /// `stop_at_first`: after the first non-finite step all later ones are skipped too, so that the
  /// state in which it happened can be examined.
  StepGuard(c10::Device device, bool stop_at_first);

  /// Before a step: copies tensors that it may change.
  void snapshot(std::vector<torch::Tensor> state);
  /// True, as a boolean on the device, if the step is to be skipped. `overflow_curable`, a boolean
  /// on the device or undefined, is true where a smaller loss scale may help.
  const torch::Tensor& check_finite(const GatheredScalars& scalars,
                                    const std::vector<torch::Tensor>& batch,
                                    const torch::Tensor& overflow_curable = {});
  /// The decision of the last check.
  const torch::Tensor& skip() const { return skip_; }
  /// After a step: restores the snapshot if the step is skipped. A second call does nothing.
  void rollback();

  /// What was skipped since the last call. Synchronises with the device.
  std::optional<SkippedSteps> read();

 private:
  void reserve(const GatheredScalars& scalars, const std::vector<torch::Tensor>& batch);

  bool stop_at_first_;
  torch::Tensor skip_, stopped_;  ///< booleans
  torch::Tensor counts_;          ///< int64: steps, first skipped one, skipped ones, overflows
  std::vector<std::string> names_;
  torch::Tensor values_;              ///< of the first skipped step
  std::vector<torch::Tensor> batch_;  ///< of the first skipped step
  std::vector<torch::Tensor> state_, copies_;
};

}  // namespace nsvq
