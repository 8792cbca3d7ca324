#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/dist/launch.h"

namespace nsvq {

/// The processes (ranks) of a distributed training run. A single process is a group of size 1, so
/// no other code asks whether training is distributed. All ranks make the same calls in the same
/// order.
class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All-reduce: sums each tensor over all ranks, in place.
  virtual void sum(const std::vector<torch::Tensor>& tensors) = 0;
  /// Overwrites each tensor with rank 0's.
  virtual void broadcast(const std::vector<torch::Tensor>& tensors) = 0;

  /// A sum under way.
  class Pending {
   public:
    virtual ~Pending() = default;
    /// Returns when the tensor holds the sum.
    virtual void wait() = 0;
  };
  /// Starts the sum of a contiguous tensor, which must not be touched until it is waited for. A
  /// null pointer where it is done already.
  virtual std::unique_ptr<Pending> start_sum(const torch::Tensor& tensor) {
    sum({tensor});
    return nullptr;
  }

  /// Number of this rank among those of its machine, and how many these are.
  virtual int local_rank() const { return 0; }
  virtual int local_size() const { return 1; }

  /// What collectives took since the group was made.
  struct Traffic {
    int64_t collectives = 0;
    int64_t bytes = 0;  ///< of the tensors that were summed or broadcast, on this rank
    double waited = 0;  ///< seconds in which the thread that trains waited for them
  };
  virtual Traffic traffic() const { return {}; }

  /// What this rank is doing, for the messages of others if it dies.
  virtual void tell_step(int64_t /*step*/) {}
  /// Why this rank ends, for the messages of others.
  virtual void tell_failure(const std::string& /*message*/) {}

  /// No collective is needed: there is no other rank.
  virtual bool alone() const { return size() == 1; }
  /// Collectives of GPU tensors do not wait on the host and can be captured in a CUDA graph.
  virtual bool capturable() const { return alone(); }

  /// True on rank 0, the only rank that writes files and prints.
  bool leads() const { return rank() == 0; }
};

/// [size, ...]: the tensor of every rank, in the order of ranks; all have one shape and type.
torch::Tensor gather(Group& group, const torch::Tensor& tensor);

/// What makes a tensor its mean over ranks, in place; nothing for a null group and for one process.
std::function<void(const torch::Tensor&)> mean_over(Group* group);

/// Rank 0's text.
std::string broadcast_text(Group& group, const std::string& text);
/// The text of any rank.
std::string text_of_rank(Group& group, int rank, const std::string& text);

/// What happens in a process whose group has lost another: `message` says which rank, and since
/// which step. It is called by another thread than the one that trains, which may be waiting for
/// the lost rank, and must end the process.
using OnLostRank = std::function<void(const std::string& message)>;

struct GroupOptions {
  double timeout = 60;           ///< seconds without a sign of life after which a rank is lost
  std::string backend = "auto";  ///< of tensors on GPUs: nccl, gloo, or auto: nccl where it can be
  c10::Device device = c10::Device(c10::kCPU);  ///< of this rank's tensors
};

/// The group of a launch; of one process alone if it is one. Waits for the other ranks to join.
/// Throws UserError where a rank does not come.
std::shared_ptr<Group> make_group(const Launch& launch, const GroupOptions& options,
                                  OnLostRank on_lost);

/// The group of a launch of several processes, by Gloo: GPU tensors by way of the host's memory.
std::shared_ptr<Group> make_gloo_group(const Launch& launch, double timeout, OnLostRank on_lost);

/// A group of this process alone.
std::shared_ptr<Group> make_single_group();

}  // namespace nsvq
