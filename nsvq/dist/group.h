#pragma once

#include <c10/core/Device.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nsvq {

/// This process's number among those started together, and how they meet, by the environment.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;   ///< among the processes of this machine: the number of its GPU
  int local_size = 1;   ///< processes on this machine
  std::string address;  ///< host of the store through which the ranks meet
  int port = 0;
  bool agent_store = false;  ///< the launcher holds the store, not rank 0
  int attempt = 0;           ///< restarts by the launcher before this one

  bool alone() const { return size == 1; }
};

/// Reads the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), else
/// of SLURM's srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, ...); without either this process is
/// alone. Throws UserError naming the variable that is missing or no number.
Launch launch_from_environment();

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

  /// This rank's number among the ranks of its machine, and the number of these.
  virtual int local_rank() const { return 0; }
  virtual int local_size() const { return 1; }

  /// Totals of the collectives since the group was made.
  struct Traffic {
    int64_t collectives = 0;
    int64_t bytes = 0;  ///< of tensors summed or broadcast, on this rank
    double waited = 0;  ///< seconds in which the thread that trains waited for them
  };
  virtual Traffic traffic() const { return {}; }

  /// Notes this rank's step, which the messages of other ranks name if it dies.
  virtual void tell_step(int64_t /*step*/) {}
  /// Tells the other ranks why this one ends, for their messages.
  virtual void tell_failure(const std::string& /*message*/) {}

  /// Whether no collective is needed, since there is no other rank.
  virtual bool alone() const { return size() == 1; }
  /// Whether collectives of GPU tensors do not wait on the host and can be captured in a CUDA
  /// graph.
  virtual bool capturable() const { return alone(); }

  /// True on rank 0, the only rank that writes files and prints.
  bool leads() const { return rank() == 0; }
};

/// The tensors of all ranks [size, ...], in the order of ranks; all have one shape and type.
torch::Tensor gather(Group& group, const torch::Tensor& tensor);

/// A function that replaces a tensor by its mean over ranks, in place; null for a null group and
/// for one process.
std::function<void(const torch::Tensor&)> mean_over(Group* group);

/// Rank 0's text.
std::string broadcast_text(Group& group, const std::string& text);
/// The text of the given rank.
std::string text_of_rank(Group& group, int rank, const std::string& text);

/// Called in a process whose group has lost another rank: `message` says which one, and since which
/// step. The caller is a thread other than the one that trains, which may be waiting for the lost
/// rank; the function must end the process.
using OnLostRank = std::function<void(const std::string& message)>;

struct GroupOptions {
  double timeout = 60;           ///< seconds without a sign of life after which a rank is lost
  std::string backend = "auto";  ///< nccl, gloo, or auto: nccl where it can be used
  c10::Device device = c10::Device(c10::kCPU);  ///< this rank's
};

/// The group of a launch of one or several processes. Waits for the other ranks to join. Throws
/// UserError where a rank does not come.
std::shared_ptr<Group> make_group(const Launch& launch, const GroupOptions& options,
                                  OnLostRank on_lost);

/// The group of a launch of several processes, by Gloo: GPU tensors pass through the host's memory.
std::shared_ptr<Group> make_gloo_group(const Launch& launch, double timeout, OnLostRank on_lost);

/// A group of this process alone.
std::shared_ptr<Group> make_single_group();

// Implemented in nccl_group_cuda.cpp, or in nccl_group_no_cuda.cpp without CUDA:

/// Why the ranks of `base`, each on its `device`, cannot use NCCL; empty if they can. All ranks get
/// one answer.
std::string why_no_nccl(Group& base, c10::Device device);

/// The ranks of `base`, with collectives of GPU tensors by NCCL and those of CPU tensors by `base`.
/// Collectives of GPU tensors are queued on a stream of their own, without waiting on the host, and
/// can be captured in a CUDA graph. A group of one rank uses NCCL too.
std::shared_ptr<Group> make_nccl_group(std::shared_ptr<Group> base, c10::Device device);

}  // namespace nsvq
