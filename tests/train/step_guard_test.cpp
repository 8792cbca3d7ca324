#include "nsvq/train/steps/step_guard.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/dist/group.h"
#include "nsvq/train/meter.h"

namespace nsvq {
namespace {

GatheredScalars scalars_of(double loss) {
  return gather_scalars({{"a", at::scalar_tensor(1.5)}, {"loss", at::scalar_tensor(loss)}});
}

TEST(StepGuard, FindsTheFirstOfTheBadSteps) {
  StepGuard guard(at::kCPU, /*stop_at_first=*/false);
  const auto images = [](double value) { return at::full({2, 3, 4, 4}, value); };
  EXPECT_FALSE(guard.read());
  EXPECT_FALSE(guard.check_finite(scalars_of(1), {images(0)}).item<bool>());
  EXPECT_FALSE(guard.read()) << "no step was skipped";
  guard.check_finite(scalars_of(1), {images(0)});
  EXPECT_TRUE(guard.check_finite(scalars_of(INFINITY), {images(1)}).item<bool>());
  EXPECT_FALSE(guard.check_finite(scalars_of(1), {images(2)}).item<bool>());
  EXPECT_TRUE(guard.check_finite(scalars_of(NAN), {images(3)}).item<bool>());
  const auto skipped = guard.read();
  ASSERT_TRUE(skipped);
  EXPECT_EQ(skipped->first, 1);
  EXPECT_EQ(skipped->count, 2);
  EXPECT_EQ(skipped->overflows, 0);
  EXPECT_EQ(skipped->values.at("a"), 1.5);
  EXPECT_EQ(skipped->values.at("loss"), INFINITY);
  EXPECT_EQ(skipped->batch[0].min().item<double>(), 1);
  EXPECT_FALSE(guard.read()) << "it begins anew";
}

TEST(StepGuard, AfterTheLastOneNothingIsTaken) {
  StepGuard guard(at::kCPU, /*stop_at_first=*/true);
  const auto images = at::zeros({1, 3, 2, 2});
  EXPECT_TRUE(guard.check_finite(scalars_of(NAN), {images}).item<bool>());
  EXPECT_TRUE(guard.check_finite(scalars_of(1), {images}).item<bool>());
  const auto skipped = guard.read();
  ASSERT_TRUE(skipped);
  EXPECT_EQ(skipped->count, 1) << "the other one had no fault";
  EXPECT_EQ(skipped->first, 0);
}

TEST(StepGuard, WhatASmallerScaleMayCureIsAnOverflow) {
  StepGuard guard(at::kCPU, /*stop_at_first=*/true);
  const auto images = at::zeros({1, 3, 2, 2});
  EXPECT_TRUE(guard.check_finite(scalars_of(NAN), {images}, at::ones({}, at::kBool)).item<bool>());
  EXPECT_FALSE(guard.check_finite(scalars_of(1), {images}, at::ones({}, at::kBool)).item<bool>());
  const auto skipped = guard.read();
  ASSERT_TRUE(skipped);
  EXPECT_EQ(skipped->count, 0);
  EXPECT_EQ(skipped->overflows, 1);
}

TEST(StepGuard, PutsBackWhatABadStepChanged) {
  StepGuard guard(at::kCPU, /*stop_at_first=*/false);
  const auto images = at::zeros({1, 3, 2, 2});
  const auto counts = at::zeros({3}, at::kLong), sums = at::zeros({3, 2});
  for (const double loss : {1., double{NAN}, 1.}) {
    guard.snapshot({counts, sums});
    guard.check_finite(scalars_of(loss), {images});
    counts.add_(1);
    sums.fill_(loss);
    guard.rollback();
  }
  EXPECT_EQ(counts.min().item<int64_t>(), 2);
  EXPECT_EQ(sums.max().item<double>(), 1);
}

class OneOfOne : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(const std::vector<torch::Tensor>&) override {}
  void broadcast(const std::vector<torch::Tensor>&) override {}
};

TEST(Meter, MeansAreOfTheStepsThatWereTakenAndHadTheScalar) {
  Meter meter;
  OneOfOne group;
  const auto good = at::zeros({}, at::kBool), bad = at::ones({}, at::kBool);
  EXPECT_TRUE(meter.means().empty());
  meter.add(gather_scalars({{"a", at::scalar_tensor(1.)}}), good);
  meter.add(gather_scalars({{"a", at::scalar_tensor(NAN)}}), bad);
  meter.add(gather_scalars({{"a", at::scalar_tensor(4.)}, {"b", at::scalar_tensor(7.)}}), good);
  EXPECT_EQ(meter.means(), (std::map<std::string, double>{{"a", 2.5}, {"b", 7}}));

  Meter other;
  other.load(meter.state(), "epoch.");
  EXPECT_EQ(other.means(), meter.means());
  other.add(gather_scalars({{"a", at::scalar_tensor(7.)}, {"b", at::scalar_tensor(8.)}}), good);
  EXPECT_EQ(other.means(), (std::map<std::string, double>{{"a", 4}, {"b", 7.5}}));
  other.reset();
  EXPECT_TRUE(other.means().empty());
}

}  // namespace
}  // namespace nsvq
