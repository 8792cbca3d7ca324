#include "nsvq/ops/code_statistics/code_sums.h"

#include <gtest/gtest.h>

#include "nsvq/core/device.h"
#include "tests/threads.h"

namespace nsvq {
namespace {

torch::Tensor exact_sums(const torch::Tensor& latents, const torch::Tensor& indices,
                         int64_t codes) {
  const auto wide = latents.to(at::kDouble);
  return at::zeros({codes, latents.size(1)}, wide.options()).index_add_(0, indices, wide);
}

/// Each partial sum is rounded once at most, so a sum of n terms is off by n u times their sizes.
void expect_sums(const torch::Tensor& latents, const torch::Tensor& indices, int64_t codes,
                 c10::Device device) {
  const auto ours = code_sums(latents.to(device), indices.to(device), codes).to(at::kCPU);
  const auto exact = exact_sums(latents, indices, codes);
  const auto sizes = exact_sums(latents.abs(), indices, codes);
  const double u = std::ldexp(1.0, -24);
  const auto bound = sizes * (static_cast<double>(latents.size(0)) * u) + 1e-37;
  EXPECT_EQ(ours.scalar_type(), at::kFloat);
  EXPECT_TRUE((ours.to(at::kDouble) - exact).abs().le(bound).all().item<bool>())
      << latents.sizes() << " to " << codes;
}

void expect_sums_on(c10::Device device) {
  torch::manual_seed(0);
  for (const int64_t n : {0, 1, 31, 33, 5000}) {
    for (const int64_t codes : {1, 31, 2500}) {
      for (const int64_t dimension : {1, 8, 33, 129, 300}) {
        expect_sums(at::randn({n, dimension}), at::randint(codes, {n}, at::kLong), codes, device);
      }
    }
  }
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    expect_sums(at::randn({100, 24}).to(type), at::randint(9, {100}, at::kLong), 9, device);
  }
  const auto spread = at::randn({24, 100}).t();
  expect_sums(spread, at::randint(9, {200}, at::kLong).slice(0, 0, 200, 2), 9, device);
  // Numbers around 32 rows of a code, and around the most rows that a GPU ranks.
  for (const int64_t n : {32, 64, 8191, 8193, 16384, 16385, 40000}) {
    for (const int64_t codes : {1, 2, 70000}) {
      expect_sums(at::randn({n, 5}), at::randint(codes, {n}, at::kLong), codes, device);
    }
  }
  const auto crowd = at::randn({5000, 16});  // all latents of one code
  expect_sums(crowd, at::full({5000}, 7, at::kLong), 9, device);
}

TEST(CodeSums, SumsOnTheCpu) { expect_sums_on(at::kCPU); }

TEST(CodeSums, SumsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_sums_on(at::kCUDA);
  for (const int64_t n : {8192, 20000}) {
    const auto latents = at::randn({n, 64}, at::kCUDA);
    const auto indices = at::randint(50, {n}, at::device(at::kCUDA).dtype(at::kLong));
    const auto once = code_sums(latents, indices, 50);
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(code_sums(latents, indices, 50), once));
  }
}

TEST(CodeSums, NumberOfThreadsDoesNotMatter) {
  const auto latents = at::randn({3000, 20});
  const auto indices = at::randint(2500, {3000}, at::kLong);
  const auto with = [&](int threads) {
    const Threads at_work(threads);
    return code_sums(latents, indices, 2500);
  };
  EXPECT_TRUE(at::equal(with(3), with(1)));
}

TEST(CodeSums, PlainVersionAgrees) {
  const auto latents = at::randn({300, 20});
  const auto indices = at::randint(25, {300}, at::kLong);
  EXPECT_TRUE(at::allclose(code_sums(latents, indices, 25),
                           code_sums_reference(latents, indices, 25), 1e-5, 1e-5));
}

TEST(CodeSums, RefusesWhatDoesNotFit) {
  const auto latents = at::zeros({2, 3});
  EXPECT_THROW(code_sums(latents, at::tensor({0, 5}, at::kLong), 5), c10::Error);
  EXPECT_THROW(code_sums(latents, at::tensor({-1, 0}, at::kLong), 5), c10::Error);
  EXPECT_THROW(code_sums(latents, at::tensor({1}, at::kLong), 5), c10::Error);
  EXPECT_THROW(code_sums(latents, at::tensor({1, 1}, at::kInt), 5), c10::Error);
}

}  // namespace
}  // namespace nsvq
