#include "nsvq/ops/code_statistics/code_usage.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"

namespace nsvq {
namespace {

void expect_counts_on(c10::Device device) {
  torch::manual_seed(0);
  for (const int64_t n : {0, 1, 31, 33, 100000}) {
    for (const int64_t codes : {1, 31, 1000}) {
      const auto indices = at::randint(codes, {n}, at::kLong);
      const auto counts = code_usage(indices.to(device), codes).to(at::kCPU);
      EXPECT_TRUE(at::equal(counts, at::bincount(indices, {}, codes))) << n << " of " << codes;
    }
  }
  const auto grid = at::randint(7, {4, 6, 5}, at::kLong).permute({2, 0, 1});
  EXPECT_TRUE(
      at::equal(code_usage(grid.to(device), 7).to(at::kCPU), at::bincount(grid.flatten(), {}, 7)));
}

TEST(CodeUsage, CountsOnTheCpu) { expect_counts_on(at::kCPU); }

TEST(CodeUsage, CountsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_counts_on(at::kCUDA);
}

TEST(CodeUsage, RefusesWhatIsOutOfRange) {
  EXPECT_THROW(code_usage(at::tensor({0, 5}, at::kLong), 5), c10::Error);
  EXPECT_THROW(code_usage(at::tensor({-1}, at::kLong), 5), c10::Error);
  EXPECT_THROW(code_usage(at::tensor({1}, at::kInt), 5), c10::Error);
}

}  // namespace
}  // namespace nsvq
