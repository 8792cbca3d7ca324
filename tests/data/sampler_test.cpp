#include "nsvq/data/loader/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace nsvq {
namespace {

TEST(Permutation, HoldsEveryNumberOnce) {
  for (const int64_t size : {0, 1, 2, 31, 33, 1000}) {
    auto order = permutation(size, 3, 4);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(order[i], i);
    EXPECT_EQ(std::ssize(order), size);
  }
}

TEST(Permutation, DependsOnSeedAndEpochOnly) {
  EXPECT_EQ(permutation(100, 1, 2), permutation(100, 1, 2));
  EXPECT_NE(permutation(100, 1, 2), permutation(100, 1, 3));
  EXPECT_NE(permutation(100, 1, 2), permutation(100, 2, 2));
}

TEST(Permutation, IsTheSameOnEveryMachine) {
  EXPECT_EQ(permutation(8, 0, 0), std::vector<int64_t>({1, 5, 7, 0, 3, 2, 6, 4}));
}

// Each of the 6 orders of 3 should come up 1,000 times in 6,000; 5 standard deviations are 144.
TEST(Permutation, IsUnbiased) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[permutation(3, 7, epoch)];
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 144);
}

TEST(Sampler, RanksShareAnEpochWithoutOverlap) {
  for (const int world : {1, 2, 3, 5}) {
    std::set<int64_t> seen;
    for (int rank = 0; rank < world; ++rank) {
      const Sampler sampler{103, 4, false, 0, rank, world};
      for (int64_t slot = 0; slot < sampler.slots(); ++slot) {
        EXPECT_TRUE(seen.insert(sampler.position(slot)).second);
      }
    }
    EXPECT_EQ(seen.size(), 103U);
    EXPECT_EQ(*seen.rbegin(), 102);
  }
}

TEST(Sampler, TrainingBatchesAreFullAndEqualOnEveryRank) {
  for (int rank = 0; rank < 3; ++rank) {
    const Sampler sampler{100, 8, true, 0, rank, 3};
    EXPECT_EQ(sampler.slots(), 33);
    EXPECT_EQ(sampler.batches(), 4);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(sampler.batch_slots(i), 8);
    EXPECT_LT(sampler.position(32), 100);
  }
}

TEST(Sampler, BatchesOfRanksTogetherAreThatOfOneProcess) {
  for (const int world : {1, 2, 3}) {
    const Sampler whole{103, 4 * world, true};
    std::set<int64_t> seen;
    for (int rank = 0; rank < world; ++rank) {
      const Sampler part{103, 4, true, 0, rank, world};
      ASSERT_EQ(part.batches(), whole.batches());
      for (int64_t slot = 0; slot < part.batches() * 4; ++slot) {
        const int64_t of_whole = slot / 4 * whole.batch_size + rank * 4 + slot % 4;
        EXPECT_EQ(part.position(slot), whole.position(of_whole));
      }
      for (int64_t slot = 0; slot < part.slots(); ++slot) seen.insert(part.position(slot));
    }
    EXPECT_EQ(std::ssize(seen), 103 / world * world);
    EXPECT_LT(*seen.rbegin(), 103);
  }
}

TEST(Sampler, EvaluationEndsWithAShortBatch) {
  const Sampler sampler{33, 8, false, 0, 0, 1};
  EXPECT_EQ(sampler.batches(), 5);
  EXPECT_EQ(sampler.batch_slots(3), 8);
  EXPECT_EQ(sampler.batch_slots(4), 1);
  const Sampler idle{2, 8, false, 0, 2, 3};
  EXPECT_EQ(idle.slots(), 0);
  EXPECT_EQ(idle.batches(), 0);
}

}  // namespace
}  // namespace nsvq
