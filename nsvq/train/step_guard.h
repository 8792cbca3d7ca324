#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/train/scalars.h"

namespace nsvq {

/// Steps that were not taken since the guard was read last.
struct RefusedSteps {
  int64_t first = 0;                     ///< counted from 0 at the last reading
  int64_t count = 0;                     ///< without those that a smaller loss scale may cure
  int64_t overflows = 0;                 ///< those
  std::map<std::string, double> values;  ///< scalars of the first one
  torch::Tensor images;                  ///< and its images
};

/// Decides whether a step is taken: only if all its numbers are finite. The decision is made where
/// they are computed and kept there, so that nothing waits for a GPU; what a step changes anyway
/// is put back.
class StepGuard {
 public:
  /// `last`: after the first step that is refused none is taken any more, so that the state it
  /// failed in stays to be looked at.
  StepGuard(c10::Device device, bool last);

  /// Before a step: keeps what it may change by other ways than the optimizer.
  void keep(std::vector<torch::Tensor> state);
  /// Whether the step is bad, a boolean on the device. `curable`, undefined or another one, says
  /// that a smaller loss scale may cure it.
  const torch::Tensor& judge(const GatheredScalars& scalars, const torch::Tensor& images,
                             const torch::Tensor& curable = {});
  /// After a step: puts back what was kept, if the step is bad.
  void restore();

  /// What was refused since the last call. Waits for the device.
  std::optional<RefusedSteps> read();

 private:
  void remember(const GatheredScalars& scalars, const torch::Tensor& images);

  bool last_;
  torch::Tensor bad_, stopped_;  ///< booleans
  torch::Tensor counts_;         ///< int64: steps, first refused one, refused ones, overflows
  std::vector<std::string> names_;
  torch::Tensor values_, images_;  ///< of the first refused step
  std::vector<torch::Tensor> state_, kept_;
};

}  // namespace nsvq
