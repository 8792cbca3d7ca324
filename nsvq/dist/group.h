#pragma once

#include <torch/types.h>

#include <memory>
#include <vector>

namespace nsvq {

/// The processes that train together. One process is a group of one, so nothing else asks whether
/// it runs alone.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sums each tensor over all ranks, in place.
  virtual void sum(const std::vector<torch::Tensor>& tensors) = 0;
  /// Makes each tensor that of rank 0, in place.
  virtual void broadcast(const std::vector<torch::Tensor>& tensors) = 0;

  /// Whether this rank writes files and speaks.
  bool leads() const { return rank() == 0; }
};

/// The group that torchrun's environment variables describe: without them, this process alone.
std::shared_ptr<Group> make_group();

}  // namespace nsvq
