#include "nsvq/train/recorded_work.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace nsvq {

namespace {

constexpr int kStepsAsTheyAre = 3;
constexpr int64_t kStepsAhead = 4;

}  // namespace

void StepRecorder::run(const std::string& kind, const torch::Tensor& images, const Step& step) {
  if (!enabled_) return step(images);
  if (kind != kind_ || (recorded_ && images.sizes() != images_.sizes())) {
    recorded_.reset();
    done_ = 0;
    kind_ = kind;
  }
  if (!recorded_ && done_ < kStepsAsTheyAre) {
    ++done_;
    return step(images);
  }
  if (!recorded_) {
    images_ = at::empty_like(images);
    recorded_ = record([&] { step(images_); }, device_);
  }
  images_.copy_(images, /*non_blocking=*/true);
  recorded_->run();
}

void Pace::step() {
  if (device_.is_cpu()) return;
  steps_.emplace_back(device_.type());
  steps_.back().record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (std::ssize(steps_) <= kStepsAhead) return;
  steps_.front().synchronize();
  steps_.pop_front();
}

}  // namespace nsvq
