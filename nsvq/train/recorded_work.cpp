#include "nsvq/train/recorded_work.h"

#include "nsvq/core/log.h"

namespace nsvq {

namespace {

constexpr int kStepsAsTheyAre = 3;

}  // namespace

void StepRecorder::run(const std::string& kind, const torch::Tensor& images, const Step& step) {
  if (!enabled_) return step(images);
  if (kind != kind_ || (recorded_ && images.sizes() != images_.sizes())) {
    forget();
    kind_ = kind;
  }
  if (!recorded_ && done_ < kStepsAsTheyAre) {
    ++done_;
    return step(images);
  }
  if (!recorded_) {
    try {
      images_ = at::empty_like(images);
      recorded_ = record([&] { step(images_); }, device_);
    } catch (const c10::Error& error) {
      log("train.graphs: steps are not recorded: {}", error.what_without_backtrace());
      enabled_ = false;
      return step(images);
    }
  }
  images_.copy_(images, /*non_blocking=*/true);
  recorded_->run();
}

void StepRecorder::forget() {
  recorded_.reset();
  done_ = 0;
}

}  // namespace nsvq
