#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "nsvq/core/error.h"
#include "nsvq/train/recorded_work.h"

namespace nsvq {

namespace {

class CudaGraph : public RecordedWork {
 public:
  explicit CudaGraph(const std::function<void()>& work) {
    // This thread alone must not call what a recording forbids: the loader's may lock memory.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
      graph_.capture_end();
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error& error) {
      throw RunError("train.graphs: the step cannot be recorded ({}); set train.graphs=false",
                     error.what_without_backtrace());
    }
  }

  void run() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

}  // namespace

struct OwnStream::Impl {
  explicit Impl(c10::Device device)
      : guard(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}
  c10::cuda::CUDAStreamGuard guard;
};

OwnStream::OwnStream(c10::Device device) {
  if (!device.is_cuda()) return;
  c10::cuda::device_synchronize();  // what was begun in another stream is done
  impl_ = std::make_unique<Impl>(device);
}

OwnStream::~OwnStream() {
  if (impl_) cudaDeviceSynchronize();  // an error has been met elsewhere, and none may leave here
}

std::unique_ptr<RecordedWork> record(const std::function<void()>& work, c10::Device device) {
  TORCH_CHECK(device.is_cuda(), "nothing can be recorded on ", device);
  // A recording has memory of its own: what earlier steps left in the cache is given back first.
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  return std::make_unique<CudaGraph>(work);
}

}  // namespace nsvq
