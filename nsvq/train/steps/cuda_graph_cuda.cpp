#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "nsvq/core/error.h"
#include "nsvq/train/steps/cuda_graph.h"

namespace nsvq {

namespace {

/// Ends a capture also when an exception leaves it: nothing else could run on the stream.
class OpenCapture {
 public:
  explicit OpenCapture(at::cuda::CUDAGraph& graph) : graph_(graph) {
    // Thread-local mode: the loader's threads may allocate pinned memory during the capture.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  }
  ~OpenCapture() {
    if (!open_) return;
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {
      cudaGetLastError();  // the error that is under way says more
    }
  }
  void end() {
    open_ = false;
    graph_.capture_end();
  }

 private:
  at::cuda::CUDAGraph& graph_;
  bool open_ = true;
};

class CapturedGraph : public CudaGraph {
 public:
  explicit CapturedGraph(const std::function<void()>& work) {
    try {
      OpenCapture capture(graph_);
      work();
      capture.end();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      throw RunError(
          "train.graphs: the step cannot be captured as a CUDA graph ({}); set train.graphs=false",
          error.what_without_backtrace());
    }
  }

  void replay() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace

struct SideStreamGuard::Impl {
  explicit Impl(c10::Device device)
      : guard(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}
  c10::cuda::CUDAStreamGuard guard;
};

SideStreamGuard::SideStreamGuard(c10::Device device) {
  if (!device.is_cuda()) return;
  c10::cuda::device_synchronize();  // work queued in other streams is done before
  impl_ = std::make_unique<Impl>(device);
}

SideStreamGuard::~SideStreamGuard() {
  if (impl_) cudaDeviceSynchronize();  // its error was reported elsewhere; a destructor throws none
}

std::unique_ptr<CudaGraph> capture_graph(const std::function<void()>& work, c10::Device device) {
  TORCH_CHECK(device.is_cuda(), "no CUDA graph can be captured on ", device);
  // A graph has a memory pool of its own: the cache of eager steps is returned first.
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  return std::make_unique<CapturedGraph>(work);
}

}  // namespace nsvq
