#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/dist/group.h"

namespace nsvq {

namespace {

void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw RunError("NCCL: {} failed: {} ({})", what, ncclGetErrorString(result),
                 ncclGetLastError(nullptr));
}

ncclDataType_t nccl_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    case at::kByte:
    case at::kBool:
      return ncclUint8;
    default:
      TORCH_CHECK(false, "NCCL has no type for ", type);
  }
}

std::vector<torch::Tensor> those_on_cpu(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> found;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(found),
               [](const auto& tensor) { return tensor.device().is_cpu(); });
  return found;
}

/// The names of a machine and its GPU, as bytes.
torch::Tensor gpu_identity(c10::Device device) {
  const auto identity = at::zeros({64 + 16}, at::kByte);
  auto* bytes = identity.data_ptr<uint8_t>();
  ::gethostname(reinterpret_cast<char*>(bytes), 64);
  std::memcpy(bytes + 64, at::cuda::getDeviceProperties(device.index())->uuid.bytes, 16);
  return identity;
}

/// A tensor's memory for NCCL, copied if it has gaps, and copied back after the collective.
class Contiguous {
 public:
  explicit Contiguous(const torch::Tensor& tensor)
      : tensor_(tensor.detach()), dense_(tensor_.is_non_overlapping_and_dense()) {
    // Every layout without gaps will do: it is the same on all ranks.
    flat_ = dense_ ? tensor_ : tensor_.contiguous();
  }
  void* data() const { return flat_.data_ptr(); }
  size_t count() const { return static_cast<size_t>(flat_.numel()); }
  int64_t bytes() const { return static_cast<int64_t>(flat_.nbytes()); }
  ncclDataType_t type() const { return nccl_type(flat_.scalar_type()); }
  void write_back() const {
    if (!dense_) tensor_.copy_(flat_);
  }

 private:
  torch::Tensor tensor_, flat_;
  bool dense_;
};

class PendingEvent : public Group::Pending {
 public:
  explicit PendingEvent(const c10::cuda::CUDAStream& stream) { event_.record(stream); }
  /// The current stream waits, not the host.
  void wait() override { event_.block(c10::cuda::getCurrentCUDAStream()); }

 private:
  at::cuda::CUDAEvent event_;
};

class NcclGroup : public Group {
 public:
  NcclGroup(std::shared_ptr<Group> base, c10::Device device)
      : base_(std::move(base)),
        device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())) {
    const c10::cuda::CUDAGuard guard(device_);
    const auto id = at::zeros({NCCL_UNIQUE_ID_BYTES}, at::kByte);
    ncclUniqueId unique;
    if (base_->leads()) {
      check(ncclGetUniqueId(&unique), "starting");
      std::memcpy(id.data_ptr(), &unique, sizeof(unique));
    }
    base_->broadcast({id});
    std::memcpy(&unique, id.data_ptr(), sizeof(unique));
    check(ncclCommInitRank(&communicator_, base_->size(), unique, base_->rank()), "connecting");
    // Connections are made by the first collective, which may allocate: not within a capture.
    sum({at::zeros({1}, at::device(device_).dtype(at::kFloat))});
    stream_.synchronize();
  }

  ~NcclGroup() override {
    if (failed_) {  // others may be gone: a collective may never end
      ncclCommAbort(communicator_);
      return;
    }
    const c10::cuda::CUDAGuard guard(device_);
    cudaStreamSynchronize(stream_);
    ncclCommDestroy(communicator_);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return base_->rank(); }
  int size() const override { return base_->size(); }
  int local_rank() const override { return base_->local_rank(); }
  int local_size() const override { return base_->local_size(); }
  bool alone() const override { return false; }
  bool capturable() const override { return true; }

  void sum(const std::vector<torch::Tensor>& tensors) override {
    base_->sum(those_on_cpu(tensors));
    collective(tensors, [this](const Contiguous& tensor) {
      return ncclAllReduce(tensor.data(), tensor.data(), tensor.count(), tensor.type(), ncclSum,
                           communicator_, stream_);
    });
  }

  void broadcast(const std::vector<torch::Tensor>& tensors) override {
    base_->broadcast(those_on_cpu(tensors));
    collective(tensors, [this](const Contiguous& tensor) {
      return ncclBroadcast(tensor.data(), tensor.data(), tensor.count(), tensor.type(), 0,
                           communicator_, stream_);
    });
  }

  std::unique_ptr<Pending> start_sum(const torch::Tensor& tensor) override {
    if (tensor.device().is_cpu()) return base_->start_sum(tensor);
    TORCH_CHECK(tensor.is_contiguous(), "start_sum: needs a contiguous tensor");
    after_current_stream();
    const Contiguous whole(tensor);
    count(whole);
    check(ncclAllReduce(whole.data(), whole.data(), whole.count(), whole.type(), ncclSum,
                        communicator_, stream_),
          "all-reduce");
    return std::make_unique<PendingEvent>(stream_);
  }

  /// Counts what the host has queued, not replays of a CUDA graph.
  Traffic traffic() const override {
    auto all = base_->traffic();
    all.collectives += traffic_.collectives;
    all.bytes += traffic_.bytes;
    return all;
  }

  void tell_step(int64_t step) override { base_->tell_step(step); }
  void tell_failure(const std::string& message) override {
    failed_ = true;
    base_->tell_failure(message);
  }

 private:
  void count(const Contiguous& tensor) {
    ++traffic_.collectives;
    traffic_.bytes += tensor.bytes();
  }

  void after_current_stream() {
    at::cuda::CUDAEvent ready;
    ready.record(c10::cuda::getCurrentCUDAStream(device_.index()));
    ready.block(stream_);
  }

  /// Runs a collective of the tensors that are on the GPU, in place, in one launch. All collectives
  /// go to one stream: ranks then have them in one order, whatever else their GPUs do.
  template <typename Call>
  void collective(const std::vector<torch::Tensor>& tensors, const Call& call) {
    std::vector<Contiguous> on_gpu;
    for (const auto& tensor : tensors) {
      if (tensor.device().is_cuda() && tensor.numel() > 0) on_gpu.emplace_back(tensor);
    }
    if (on_gpu.empty()) return;
    const torch::NoGradGuard no_grad;
    after_current_stream();
    check(ncclGroupStart(), "a collective");
    for (const auto& tensor : on_gpu) {
      count(tensor);
      check(call(tensor), "a collective");
    }
    check(ncclGroupEnd(), "a collective");
    PendingEvent(stream_).wait();
    for (const auto& tensor : on_gpu) tensor.write_back();
  }

  std::shared_ptr<Group> base_;
  c10::Device device_;
  c10::cuda::CUDAStream stream_;
  ncclComm_t communicator_ = nullptr;
  bool failed_ = false;
  Traffic traffic_;
};

}  // namespace

std::string why_no_nccl(Group& base, c10::Device device) {
  const auto here = device.is_cuda() ? gpu_identity(device) : at::zeros({64 + 16}, at::kByte);
  const auto all = gather(base, here);
  std::set<std::string> gpus;
  for (int rank = 0; rank < base.size(); ++rank) {
    const auto one = all[rank].contiguous();
    if (one.count_nonzero().item<int64_t>() == 0) return fmt::format("rank {} has no GPU", rank);
    const auto* bytes = reinterpret_cast<const char*>(one.data_ptr<uint8_t>());
    if (!gpus.emplace(bytes, one.numel()).second) return "several processes share a GPU";
  }
  return "";
}

std::shared_ptr<Group> make_nccl_group(std::shared_ptr<Group> base, c10::Device device) {
  return std::make_shared<NcclGroup>(std::move(base), device);
}

}  // namespace nsvq
