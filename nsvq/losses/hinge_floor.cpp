#include "nsvq/losses/hinge_floor.h"

#include <cmath>

namespace nsvq {

namespace {

constexpr double kDecay = 0.99;

}  // namespace

HingeFloor::HingeFloor(double target, int64_t updates_per_step)
    : target_(target), decay_(std::pow(kDecay, 1.0 / static_cast<double>(updates_per_step))) {
  mean_ = register_buffer("mean", at::ones({}, at::kDouble));
}

torch::Tensor HingeFloor::update(const torch::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  const auto value = loss.detach().to(at::kDouble).reshape(at::IntArrayRef());
  const auto moved = mean_ * decay_ + value * (1 - decay_);
  mean_.copy_(at::where(value.isfinite(), moved, mean_));
  return mean_.lt(target_);
}

}  // namespace nsvq
