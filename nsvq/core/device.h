#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nsvq {

/// The device for the setting `device`: "cpu", "cuda", or "auto" (a GPU if this build supports CUDA
/// and one is visible). Throws UserError with the reason if "cuda" is not available. Each process
/// on a machine uses the GPU of its local rank; if there are fewer GPUs, processes share them.
c10::Device choose_device(const std::string& name, int local_rank = 0);

/// A text for logs: "cpu, 2 threads" or "NVIDIA H200".
std::string describe(c10::Device device);

/// Peak memory in GiB: of the process for a CPU, of allocated tensors for a GPU.
double peak_memory(c10::Device device);
/// Peak memory in GiB that the allocator has reserved on a GPU, with what it keeps for later
/// tensors and the pools of CUDA graphs. nullopt for a CPU, whose peak memory is the process's.
std::optional<double> peak_reserved_memory(c10::Device device);

/// Synchronises the host with a GPU, as torch.cuda.synchronize; returns at once for a CPU.
void wait_for(c10::Device device);

/// CPU cores that this process may use: those it is bound to, within a container's limit (cgroup).
int usable_cores();

/// Threads for computing that can be asked for; more is a slip, and cannot be started.
inline constexpr int64_t kMostThreads = 1024;

/// Threads to compute with where no setting says how many: OMP_NUM_THREADS, else the usable cores
/// divided by the number of processes on this machine. The 1 that torchrun sets for several
/// processes is ignored: it is a default, not a choice.
int default_threads(int processes = 1);

/// Whether this is the text of an out-of-memory error, of a GPU or the CPU.
bool is_out_of_memory(const std::string& error);
/// A short form of such a text: requested and free memory.
std::string describe_out_of_memory(const std::string& error);
/// The figures of such a text, in GiB: what was asked for, and what tensors on a GPU held then.
struct OutOfMemory {
  bool gpu = false;
  std::optional<double> asked, used;
};
OutOfMemory read_out_of_memory(const std::string& error);

// Implemented in device_cuda.cpp, or in device_no_cuda.cpp without CUDA:

/// Makes this the GPU that the thread's work goes to.
void use_gpu(int index);
/// Number of usable GPUs.
int gpu_count();
/// The reason why gpu_count() is 0, for an error message.
std::string why_no_gpu();
std::string gpu_name(c10::Device device);
/// Peak memory of allocated tensors, in bytes.
int64_t gpu_peak_memory(c10::Device device);
/// Peak memory that the allocator has reserved, in bytes.
int64_t gpu_peak_reserved_memory(c10::Device device);

/// Limits the memory of tensors that this thread allocates on the CPU while it lives: `bytes` in
/// all, including tensors freed meanwhile. The allocation beyond throws UserError with `message`.
/// For networks built by the configuration of a file, which may claim any size.
class TensorBudget {
 public:
  TensorBudget(uint64_t bytes, std::string message);
  ~TensorBudget();
  TensorBudget(const TensorBudget&) = delete;
  TensorBudget& operator=(const TensorBudget&) = delete;

 private:
  class Allocator;
  void take(uint64_t bytes);

  uint64_t left_;
  std::string message_;
  TensorBudget* outer_;  ///< budget around this one, inactive meanwhile
};

/// An asynchronous copy of a tensor to the CPU. The host waits only in `get`, so it can enqueue
/// more work on the device in the meantime.
class HostCopy {
 public:
  /// Enqueues the copy on the current stream. A CPU tensor is not copied: `get` returns it.
  explicit HostCopy(const torch::Tensor& tensor);

  /// Waits for the copy and returns the CPU tensor.
  torch::Tensor get() const;

 private:
  torch::Tensor host_;
  std::optional<c10::Event> arrived_;
};

}  // namespace nsvq
