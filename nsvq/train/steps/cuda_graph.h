#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <torch/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nsvq {

/// While it lives, this thread's GPU work goes to a side stream, as CUDA graph capture requires. No
/// effect on a CPU.
class SideStreamGuard {
 public:
  explicit SideStreamGuard(c10::Device device);
  ~SideStreamGuard();
  SideStreamGuard(const SideStreamGuard&) = delete;
  SideStreamGuard& operator=(const SideStreamGuard&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A captured CUDA graph: kernels that read and write the same memory at every replay.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  virtual void replay() = 0;
};

/// Captures the kernels of `work` without running them; the current stream must be that of a
/// SideStreamGuard. Throws RunError if the work synchronises with the host, after which the device
/// cannot be relied on.
std::unique_ptr<CudaGraph> capture_graph(const std::function<void()>& work, c10::Device device);

/// The CUDA graph of the steps of one kind. The first 3 steps of a kind run eagerly, since cuDNN
/// and cuBLAS choose algorithms then; the next one is captured.
class StepGraph {
 public:
  /// Without `enabled` every step is eager.
  StepGraph(c10::Device device, bool enabled) : device_(device), enabled_(enabled) {}

  using Batch = std::vector<torch::Tensor>;
  using Work = std::function<void(const Batch&)>;
  /// Replays the step on a batch, captured from `step` if need be; false if this step is to run
  /// eagerly. A new kind, or a batch of different shapes, is captured anew.
  bool replay(const std::string& kind, const Batch& batch, const Work& step);

 private:
  c10::Device device_;
  bool enabled_;
  std::string kind_;
  int eager_steps_ = 0;  ///< of this kind
  Batch batch_;          ///< memory that the graph reads
  std::unique_ptr<CudaGraph> graph_;
};

/// Steps that the host queues ahead of a GPU.
inline constexpr int64_t kStepsInFlight = 4;

/// Limits how many steps the host queues ahead of a GPU, since each holds memory.
class InFlightLimit {
 public:
  explicit InFlightLimit(c10::Device device) : device_(device) {}
  /// After a step: waits for the one that was queued some steps before.
  void step();

 private:
  c10::Device device_;
  std::deque<c10::Event> steps_;
};

}  // namespace nsvq
