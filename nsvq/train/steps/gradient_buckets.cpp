#include "nsvq/train/steps/gradient_buckets.h"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace nsvq {

namespace {

/// Large enough for the network's bandwidth, small enough that the last one, which nothing hides,
/// is short.
constexpr int64_t kBucketBytes = 16 << 20;

}  // namespace

GradientBuckets::GradientBuckets(const torch::nn::Module& module, Group& group, at::ScalarType type)
    : group_(group), type_(type) {
  for (const auto& parameter : module.parameters()) {
    const bool frozen = !parameter.requires_grad();
    if (frozen) parameter.set_requires_grad(true);  // the accumulator is there for all
    Slot slot{parameter, torch::autograd::impl::grad_accumulator(parameter)};
    if (frozen) parameter.set_requires_grad(false);
    const auto index = static_cast<int64_t>(slots_.size());
    slot.hook =
        slot.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, index](const torch::autograd::variable_list& outputs,
                          const torch::autograd::variable_list& /*inputs*/) {
              on_gradient(index);
              return outputs;
            }));
    slots_.push_back(std::move(slot));
  }
}

GradientBuckets::~GradientBuckets() {
  for (const auto& slot : slots_) slot.accumulator->del_post_hook(slot.hook);
}

/// Buckets of the parameters that train now.
void GradientBuckets::arrange() {
  const auto changed = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.parameter.requires_grad() != (slot.bucket >= 0);
  });
  if (!changed && !buckets_.empty()) return;
  buckets_.clear();
  int64_t bytes = kBucketBytes;
  for (auto index = std::ssize(slots_) - 1; index >= 0; --index) {
    auto& slot = slots_[index];
    slot.bucket = -1;
    if (!slot.parameter.requires_grad()) continue;
    if (bytes >= kBucketBytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bytes += slot.parameter.numel() * static_cast<int64_t>(c10::elementSize(type_));
    slot.bucket = std::ssize(buckets_) - 1;
    buckets_.back().slots.push_back(index);
  }
}

void GradientBuckets::arm() {
  arrange();
  for (auto& bucket : buckets_) bucket.missing = std::ssize(bucket.slots);
  next_ = 0;
  armed_ = true;
}

void GradientBuckets::on_gradient(int64_t slot) {
  if (!armed_ || slots_[slot].bucket < 0) return;
  --buckets_[slots_[slot].bucket].missing;
  start_ready();
}

void GradientBuckets::start_ready() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_) start(buckets_[next_]);
}

void GradientBuckets::start(Bucket& bucket) {
  const torch::NoGradGuard no_grad;
  bucket.gradients.clear();
  std::vector<torch::Tensor> parts;
  for (const auto index : bucket.slots) {
    const auto& gradient = slots_[index].parameter.grad();
    if (!gradient.defined()) continue;  // on no rank: all run the same graph
    bucket.gradients.push_back(gradient);
    parts.push_back(gradient.reshape({-1}).to(type_));
  }
  if (parts.empty()) {
    bucket.flat = torch::Tensor();
    return;
  }
  bucket.flat = at::cat(parts);
  bucket.sum = group_.start_sum(bucket.flat);
}

void GradientBuckets::finish() {
  const torch::NoGradGuard no_grad;
  armed_ = false;
  for (; next_ < buckets_.size(); ++next_) start(buckets_[next_]);  // some gradients never came
  for (auto& bucket : buckets_) {
    if (bucket.sum) bucket.sum->wait();
    bucket.sum.reset();
    if (!bucket.flat.defined()) continue;
    bucket.flat.div_(group_.size());
    int64_t first = 0;
    for (const auto& gradient : bucket.gradients) {
      gradient.copy_(bucket.flat.narrow(0, first, gradient.numel()).view(gradient.sizes()));
      first += gradient.numel();
    }
  }
}

int64_t GradientBuckets::bytes() const {
  int64_t bytes = 0;
  for (const auto& bucket : buckets_) {
    if (bucket.flat.defined()) bytes += static_cast<int64_t>(bucket.flat.nbytes());
  }
  return bytes;
}

}  // namespace nsvq
