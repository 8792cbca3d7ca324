#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Averages a module's gradients over ranks, in flat buckets: the sum of a bucket starts as soon as
/// the backward pass has its last gradient, and travels while the pass goes on. Buckets follow the
/// order in which gradients come, from the last layer to the first, and start in this order on
/// every rank. A parameter that is frozen, or that the step does not reach, does not travel.
class GradientBuckets {
 public:
  /// Gradients are summed as `type`.
  GradientBuckets(const torch::nn::Module& module, Group& group, at::ScalarType type);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Before the backward pass after which gradients are to be averaged.
  void arm();
  /// After it: gradients are means over ranks.
  void finish();
  /// Bytes that travelled in the last step.
  int64_t bytes() const;

 private:
  struct Slot {
    torch::Tensor parameter;
    std::shared_ptr<torch::autograd::Node> accumulator;  ///< kept alive: it holds the hook
    uintptr_t hook = 0;
    int64_t bucket = -1;  ///< none: frozen
  };
  struct Bucket {
    std::vector<int64_t> slots;
    int64_t missing = 0;  ///< gradients still to come in this step
    std::vector<torch::Tensor> gradients;
    torch::Tensor flat;
    std::unique_ptr<Group::Pending> sum;
  };
  void arrange();
  void on_gradient(int64_t slot);
  void start_ready();
  void start(Bucket& bucket);

  Group& group_;
  at::ScalarType type_;
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  ///< first bucket that has not started
  bool armed_ = false;
};

}  // namespace nsvq
