#include "nsvq/losses/hinge_floor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace nsvq {
namespace {

torch::Tensor loss(double value) { return at::full({}, value); }

TEST(HingeFloor, HoldsWhileTheRunningMeanIsBelowTheTarget) {
  HingeFloor floor(0.5, 1);
  double mean = 1;
  for (int step = 0; step < 400; ++step) {
    const double value = step < 200 ? 0 : 2;
    mean = 0.99 * mean + 0.01 * value;
    EXPECT_EQ(floor.update(loss(value)).item<bool>(), mean < 0.5) << step;
    EXPECT_NEAR(floor.named_buffers()["mean"].item<double>(), mean, 1e-12);
  }
}

TEST(HingeFloor, PassesOfAStepShareItsDecay) {
  HingeFloor whole(0.5, 1), passes(0.5, 4);
  for (int step = 0; step < 10; ++step) {
    whole.update(loss(0.25));
    for (int pass = 0; pass < 4; ++pass) passes.update(loss(0.25));
  }
  EXPECT_NEAR(whole.named_buffers()["mean"].item<double>(),
              passes.named_buffers()["mean"].item<double>(), 1e-12);
}

TEST(HingeFloor, IgnoresALossThatIsNotFinite) {
  HingeFloor floor(0.5, 1);
  floor.update(loss(std::nan("")));
  EXPECT_FALSE(floor.update(loss(std::numeric_limits<double>::infinity())).item<bool>());
  EXPECT_EQ(floor.named_buffers()["mean"].item<double>(), 1);
}

}  // namespace
}  // namespace nsvq
