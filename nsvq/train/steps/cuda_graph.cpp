#include "nsvq/train/steps/cuda_graph.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace nsvq {

namespace {

constexpr int kEagerSteps = 3;

bool same_shapes(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.sizes() == y.sizes(); });
}

}  // namespace

bool StepGraph::replay(const std::string& kind, const Batch& batch, const Work& step) {
  if (!enabled_) return false;
  if (kind != kind_ || (graph_ && !same_shapes(batch, batch_))) {
    graph_.reset();
    eager_steps_ = 0;
    kind_ = kind;
  }
  if (!graph_ && eager_steps_ < kEagerSteps) {
    ++eager_steps_;
    return false;
  }
  if (!graph_) {
    batch_.clear();
    for (const auto& tensor : batch) batch_.push_back(at::empty_like(tensor));
    graph_ = capture_graph([&] { step(batch_); }, device_);
  }
  for (size_t i = 0; i < batch.size(); ++i) batch_[i].copy_(batch[i], /*non_blocking=*/true);
  graph_->replay();
  return true;
}

void InFlightLimit::step() {
  if (device_.is_cpu()) return;
  steps_.emplace_back(device_.type());
  steps_.back().record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (std::ssize(steps_) <= kStepsInFlight) return;
  steps_.front().synchronize();
  steps_.pop_front();
}

}  // namespace nsvq
