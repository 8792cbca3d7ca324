// Groups of several processes over Gloo, which comes with LibTorch (torch/csrc/distributed/c10d).

#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/dist/group.h"
#include "nsvq/dist/peers.h"

namespace nsvq {

namespace {

using namespace std::chrono_literals;

/// Time for ranks to meet; they may start minutes apart.
constexpr auto kMeeting = 300s;
/// Time for a collective. Not dist.timeout: a rank may be busy for long (with a checkpoint on a
/// slow disk), and Peers tells whether it lives.
constexpr auto kCollective = 24h;

c10::intrusive_ptr<c10d::TCPStore> connect(const Launch& launch, bool server) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(launch.port);
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = kMeeting;
  try {
    return c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw UserError("rank {} cannot reach {}:{} ({}); check MASTER_ADDR and MASTER_PORT",
                    launch.rank, launch.address, launch.port, text.substr(0, text.find('\n')));
  }
}

/// The network between ranks: loopback on one machine, else the interface named by
/// GLOO_SOCKET_IFNAME, else that of the machine's own name.
std::shared_ptr<gloo::transport::Device> network(const Launch& launch) {
  using Gloo = c10d::ProcessGroupGloo;
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME")) {
    return Gloo::createDeviceForInterface(name);
  }
  if (launch.local_size == launch.size) return Gloo::createDeviceForHostname("127.0.0.1");
  return Gloo::createDefaultDevice();
}

class PendingWork : public Group::Pending {
 public:
  PendingWork(c10::intrusive_ptr<c10d::Work> work, Peers& peers, double& waited)
      : work_(std::move(work)), peers_(peers), waited_(waited) {}
  void wait() override {
    const auto start = std::chrono::steady_clock::now();
    try {
      work_->wait();
    } catch (const std::exception& error) {
      peers_.report_failure(error.what());
    }
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  Peers& peers_;
  double& waited_;
};

class GlooGroup : public Group {
 public:
  GlooGroup(const Launch& launch, double timeout, OnLostRank on_lost)
      : rank_(launch.rank),
        size_(launch.size),
        local_rank_(launch.local_rank),
        local_size_(launch.local_size) {
    // We report a broken connection in one line; c10d would print its stack.
    if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_ERROR;
    const bool server = launch.rank == 0 && !launch.agent_store;
    // A prefix per attempt: a restart must not find the keys of the one before.
    const auto prefix = fmt::format("nsvq-{}", launch.attempt);
    store_ = c10::make_intrusive<c10d::PrefixStore>(prefix, connect(launch, server));
    auto options = c10d::ProcessGroupGloo::Options::create(kMeeting);
    options->devices.push_back(network(launch));
    options->threads = 2;
    try {
      gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store_, rank_, size_, options);
      gloo_->setTimeout(kCollective);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      throw UserError("rank {}: not all of {} processes came within {} s ({})", rank_, size_,
                      kMeeting.count(), text.substr(0, text.find('\n')));
    }
    peers_.emplace(store_, rank_, size_, timeout, std::move(on_lost));  // Gloo is done with it
  }

  /// Rank 0, which may hold the store, waits for the others.
  ~GlooGroup() override {
    peers_.reset();  // before the store may go
    if (failed_) {
      std::this_thread::sleep_for(1s);  // the others read why meanwhile
      return;
    }
    try {
      store_->setTimeout(10s);
      store_->add("left", 1);
      if (rank_ == 0) {
        for (int i = 0; i < 200 && store_->add("left", 0) < size_; ++i) {
          std::this_thread::sleep_for(50ms);
        }
      }
    } catch (const std::exception&) {  // the others are gone already
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }

  void sum(const std::vector<torch::Tensor>& tensors) override {
    as_flat(tensors, [&](const torch::Tensor& flat) { start_sum(flat)->wait(); });
  }

  void broadcast(const std::vector<torch::Tensor>& tensors) override {
    as_flat(tensors, [&](const torch::Tensor& flat) {
      count(flat);
      std::vector<torch::Tensor> list = {flat};
      PendingWork(gloo_->broadcast(list), *peers_, traffic_.waited).wait();
    });
  }

  std::unique_ptr<Pending> start_sum(const torch::Tensor& tensor) override {
    if (!tensor.device().is_cpu()) return Group::start_sum(tensor);
    count(tensor);
    std::vector<torch::Tensor> list = {tensor};
    return std::make_unique<PendingWork>(gloo_->allreduce(list), *peers_, traffic_.waited);
  }

  Traffic traffic() const override { return traffic_; }

  void tell_step(int64_t step) override { peers_->tell_step(step); }
  void tell_failure(const std::string& message) override {
    failed_ = true;
    peers_->tell_failure(message);
  }

 private:
  void count(const torch::Tensor& tensor) {
    ++traffic_.collectives;
    traffic_.bytes += static_cast<int64_t>(tensor.nbytes());
  }

  /// Calls collective(tensor) once for all tensors of a type, copied to one on the CPU and back.
  template <typename Collective>
  void as_flat(const std::vector<torch::Tensor>& tensors, const Collective& collective) {
    const torch::NoGradGuard no_grad;
    std::map<at::ScalarType, std::vector<torch::Tensor>> by_type;
    for (const auto& tensor : tensors) {
      if (tensor.numel() > 0) by_type[tensor.scalar_type()].push_back(tensor);
    }
    for (const auto& [type, group] : by_type) {
      const bool as_bytes = type == at::kBool;
      std::vector<torch::Tensor> parts;
      for (const auto& tensor : group) {
        const auto part = tensor.detach().to(at::kCPU).reshape({-1});
        parts.push_back(as_bytes ? part.to(at::kByte) : part);
      }
      const auto flat = at::cat(parts);
      collective(flat);
      int64_t start = 0;
      for (const auto& tensor : group) {
        tensor.copy_(flat.narrow(0, start, tensor.numel()).view(tensor.sizes()));
        start += tensor.numel();
      }
    }
  }

  int rank_, size_, local_rank_, local_size_;
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::optional<Peers> peers_;
  bool failed_ = false;
  Traffic traffic_;
};

}  // namespace

std::shared_ptr<Group> make_gloo_group(const Launch& launch, double timeout, OnLostRank on_lost) {
  return std::make_shared<GlooGroup>(launch, timeout, std::move(on_lost));
}

}  // namespace nsvq
