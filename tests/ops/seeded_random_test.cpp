#include "nsvq/ops/random/seeded_random.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nsvq/core/device.h"
#include "tests/seed_of.h"
#include "tests/threads.h"

namespace nsvq {
namespace {

/// The largest difference of the share of values below a point from `expected(point)`.
template <typename Expected>
double distance_to(const torch::Tensor& values, Expected expected) {
  double largest = 0;
  for (double point = -3; point <= 3; point += 0.05) {
    const double share = values.lt(point).to(at::kDouble).mean().item<double>();
    largest = std::max(largest, std::abs(share - expected(point)));
  }
  return largest;
}

double normal_share(double point) { return 0.5 * std::erfc(-point / std::sqrt(2.0)); }

TEST(SeededValues, HaveTheirDistributions) {
  // A sample of so many is off by 1.63 / sqrt(n) with a chance of 1 in 100 (Kolmogorov, Smirnov).
  constexpr int64_t count = 200000;
  const double bound = 1.63 / std::sqrt(static_cast<double>(count));
  const auto uniform = uniform_values(seed_of(5), 0, count);
  EXPECT_GE(uniform.min().item<double>(), 0);
  EXPECT_LT(uniform.max().item<double>(), 1);
  EXPECT_LT(distance_to(uniform, [](double x) { return std::clamp(x, 0.0, 1.0); }), bound);
  const auto normal = normal_values(seed_of(5), 0, count);
  EXPECT_LT(distance_to(normal, normal_share), bound);
  EXPECT_TRUE(at::isfinite(normal).all().item<bool>());
  const auto neighbours = normal.slice(0, 1) * normal.slice(0, 0, count - 1);
  EXPECT_NEAR(neighbours.mean().item<double>(), 0, 0.01);
}

TEST(SeededValues, DependOnSeedDrawAndPlaceAlone) {
  const auto with = [](int threads) {
    const Threads at_work(threads);
    return uniform_values(seed_of(5), 0, 10000);
  };
  const auto values = with(1);
  EXPECT_TRUE(at::equal(uniform_values(seed_of(5), 0, 33), values.slice(0, 0, 33)));
  EXPECT_TRUE(at::equal(with(3), values));
  for (const auto& other :
       {uniform_values(seed_of(6), 0, 10000), uniform_values(seed_of(5), 1, 10000)}) {
    EXPECT_LT(other.eq(values).sum().item<int64_t>(), 5);
  }
}

TEST(SeededRows, AreTheValuesOfTheirSeeds) {
  const auto seeds = at::tensor(std::vector<int64_t>{5, -1, 5, int64_t{1} << 40}, at::kLong);
  for (const int64_t count : {0, 1, 33, 5000}) {
    const auto normal = normal_rows(seeds, 3, count), uniform = uniform_rows(seeds, 3, count);
    ASSERT_EQ(normal.sizes(), (std::vector<int64_t>{4, count}));
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_TRUE(at::equal(normal[row], normal_values(seeds[row], 3, count)));
      EXPECT_TRUE(at::equal(uniform[row], uniform_values(seeds[row], 3, count)));
    }
  }
  EXPECT_TRUE(at::equal(normal_rows(seeds.slice(0, 0, 4, 2), 3, 9),
                        normal_rows(seeds, 3, 9).slice(0, 0, 4, 2)));
  EXPECT_EQ(normal_rows(at::empty({0}, at::kLong), 0, 7).numel(), 0);
  EXPECT_THROW(normal_rows(seed_of(1), 0, 7), c10::Error);
  EXPECT_THROW(normal_rows(at::zeros({2}), 0, 7), c10::Error);
}

TEST(SeededRows, AreThoseOfTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto seeds = at::tensor(std::vector<int64_t>{5, -1, 7}, at::kLong);
  for (const int64_t count : {0, 1, 33, 5000}) {
    EXPECT_TRUE(
        at::equal(uniform_rows(seeds.cuda(), 3, count).cpu(), uniform_rows(seeds, 3, count)));
    EXPECT_TRUE(at::allclose(normal_rows(seeds.cuda(), 3, count).cpu(),
                             normal_rows(seeds, 3, count), 1e-4, 1e-5));
  }
}

TEST(SeededValues, OfOddInput) {
  EXPECT_EQ(normal_values(seed_of(-1), 0, 0).numel(), 0);
  EXPECT_EQ(normal_values(seed_of(-1), 0, 1).numel(), 1);
  EXPECT_THROW(uniform_values(at::zeros({}), 0, 1), c10::Error);
  EXPECT_THROW(uniform_values(at::zeros({2}, at::kLong), 0, 1), c10::Error);
}

TEST(SeededValues, AreThoseOfTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t count : {0, 1, 31, 33, 100000}) {
    const auto seed = seed_of(7, at::kCUDA);
    EXPECT_TRUE(
        at::equal(uniform_values(seed, 2, count).cpu(), uniform_values(seed_of(7), 2, count)));
    EXPECT_TRUE(at::allclose(normal_values(seed, 2, count).cpu(),
                             normal_values(seed_of(7), 2, count), 1e-4, 1e-5));
    for (const int64_t first : {0, 1, 37}) {
      EXPECT_TRUE(at::allclose(gumbel_values(seed, first, count).cpu(),
                               gumbel_values(seed_of(7), first, count), 1e-4, 1e-5));
    }
  }
}

}  // namespace
}  // namespace nsvq
