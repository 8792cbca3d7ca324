#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

namespace nsvq {

/// The processes of a distributed training run. A single process is a group of size 1, so no other
/// code asks whether training is distributed.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All-reduce: sums each tensor over all ranks, in place.
  virtual void sum(const std::vector<torch::Tensor>& tensors) = 0;
  /// Overwrites each tensor with rank 0's.
  virtual void broadcast(const std::vector<torch::Tensor>& tensors) = 0;

  /// True on rank 0, the only rank that writes files and prints.
  bool leads() const { return rank() == 0; }
};

/// A group of this process alone. Throws UserError if torchrun's WORLD_SIZE asks for more than one
/// process.
std::shared_ptr<Group> make_group();

}  // namespace nsvq
