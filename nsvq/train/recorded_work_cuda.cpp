#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

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
    } catch (...) {
      end_in_vain();
      throw;
    }
    graph_.capture_end();
  }

  void run() override { graph_.replay(); }

 private:
  void end_in_vain() {
    try {
      graph_.capture_end();
    } catch (const c10::Error&) {  // what broke the recording is known already
    }
    cudaGetLastError();
  }

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
  if (impl_) c10::cuda::device_synchronize();
}

std::unique_ptr<RecordedWork> record(const std::function<void()>& work, c10::Device device) {
  TORCH_CHECK(device.is_cuda(), "nothing can be recorded on ", device);
  // A recording has memory of its own: what earlier steps left in the cache is given back first.
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  return std::make_unique<CudaGraph>(work);
}

}  // namespace nsvq
