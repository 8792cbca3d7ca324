#include "nsvq/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace nsvq {
namespace {

// The first outputs of the published SplitMix64 for seed 1234567.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(Random, EqualSeedsGiveEqualDraws) {
  Random one(5), same(5), other(6);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t draw = one.next();
    EXPECT_EQ(draw, same.next());
    differs |= draw != other.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, UniformFillsItsRange) {
  Random random(1);
  double sum = 0, smallest = 1, largest = 0;
  constexpr int draws = 100000;
  for (int i = 0; i < draws; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
  }
  EXPECT_NEAR(sum / draws, 0.5, 0.005);
  EXPECT_LT(smallest, 0.001);
  EXPECT_GT(largest, 0.999);
}

TEST(Random, UniformBetweenBounds) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform(-3, 5);
    ASSERT_GE(value, -3);
    ASSERT_LT(value, 5);
  }
}

TEST(Random, BelowIsEven) {
  Random random(3);
  std::array<int, 7> counts{};
  constexpr int draws = 70000;
  for (int i = 0; i < draws; ++i) {
    const int64_t value = random.below(7);
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 7);
    ++counts[value];
  }
  for (const int count : counts) EXPECT_NEAR(count, draws / 7, 500);
}

TEST(Random, BelowTakesExtremeBounds) {
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random.below(1), 0);
    EXPECT_GE(random.below(INT64_MAX), 0);
  }
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random(5);
  double sum = 0, squares = 0;
  constexpr int draws = 200000;
  for (int i = 0; i < draws; ++i) {
    const double value = random.normal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / draws, 0, 0.01);
  EXPECT_NEAR(squares / draws, 1, 0.02);
}

TEST(CombineSeeds, DependsOnEveryPartAndTheirOrder) {
  EXPECT_EQ(combine_seeds({1, 2, 3}), combine_seeds({1, 2, 3}));
  EXPECT_NE(combine_seeds({1, 2, 3}), combine_seeds({3, 2, 1}));
  EXPECT_NE(combine_seeds({0}), combine_seeds({0, 0}));
  std::set<uint64_t> seeds;
  for (uint64_t epoch = 0; epoch < 100; ++epoch) {
    for (uint64_t position = 0; position < 100; ++position) {
      seeds.insert(combine_seeds({0, epoch, position}));
    }
  }
  EXPECT_EQ(seeds.size(), 10000u);
}

}  // namespace
}  // namespace nsvq
