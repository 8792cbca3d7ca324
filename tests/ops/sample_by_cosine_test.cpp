#include "nsvq/ops/random/sample_by_cosine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "tests/seed_of.h"
#include "tests/threads.h"

namespace nsvq {
namespace {

/// Compares the frequencies of 40,000 draws for one code with softmax(cosine similarity), within 5
/// standard deviations.
///
void expect_chances_on(c10::Device device) {
  for (const int64_t d : {1, 2, 31, 33, 200}) {
    torch::manual_seed(d);
    const auto latents = at::randn({7, d}) * at::rand({7, 1}).mul(5), code = at::randn({1, d});
    const auto codes = code.expand({40000, d});
    const auto drawn =
        sample_by_cosine(codes.to(device), latents.to(device), seed_of(3, device)).to(at::kCPU);
    const auto chances = at::cosine_similarity(latents, code, 1).to(at::kDouble).softmax(0);
    for (int64_t i = 0; i < 7; ++i) {
      const double chance = chances[i].item<double>();
      EXPECT_NEAR(drawn.eq(i).to(at::kDouble).mean().item<double>(), chance,
                  5 * std::sqrt(chance * (1 - chance) / 40000))
          << "latent " << i << " of d " << d;
    }
  }
}

TEST(SimilarityDraws, HaveTheChancesOfTheSoftmax) { expect_chances_on(at::kCPU); }

TEST(SimilarityDraws, HaveTheChancesOfTheSoftmaxOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_chances_on(at::kCUDA);
}

TEST(SimilarityDraws, AreThoseOfTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(1);
  const auto codes = at::randn({5000, 33}), latents = at::randn({1000, 33});
  const auto there = sample_by_cosine(codes.cuda(), latents.cuda(), seed_of(8, at::kCUDA)).cpu();
  // One proposal in some millions lies so near its bar that rounding decides.
  EXPECT_LT(there.ne(sample_by_cosine(codes, latents, seed_of(8))).sum().item<int64_t>(), 3);
}

TEST(SimilarityDraws, DependOnTheSeedAndNotOnThreads) {
  torch::manual_seed(2);
  const auto codes = at::randn({3000, 4}), latents = at::randn({500, 4});
  const auto with = [&](int threads) {
    const Threads at_work(threads);
    return sample_by_cosine(codes, latents, seed_of(8));
  };
  const auto drawn = with(1);
  EXPECT_TRUE(at::equal(with(3), drawn));
  EXPECT_GT(sample_by_cosine(codes, latents, seed_of(9)).ne(drawn).sum().item<int64_t>(), 2900);
  EXPECT_GT(drawn.max().item<int64_t>(), 490);
  EXPECT_GE(drawn.min().item<int64_t>(), 0);
}

TEST(SimilarityDraws, OfOddInput) {
  const auto one = at::ones({1, 3}), seven = at::randn({7, 3});
  EXPECT_EQ(sample_by_cosine(at::empty({0, 3}), one, seed_of(0)).numel(), 0);
  const auto of_zeros = sample_by_cosine(at::zeros({7000, 3}), seven, seed_of(0));
  EXPECT_GT(of_zeros.bincount().min().item<int64_t>(), 850);  // all chances are 1 / 7
  const auto of_nan = sample_by_cosine(at::full({50, 3}, NAN), seven, seed_of(0));
  EXPECT_GE(of_nan.min().item<int64_t>(), 0);
  EXPECT_LT(of_nan.max().item<int64_t>(), 7);
  EXPECT_THROW(sample_by_cosine(one, one, at::zeros({2}, at::kLong)), c10::Error);
  EXPECT_THROW(sample_by_cosine(one, one, at::zeros({}, at::kInt)), c10::Error);
  const auto wide = at::randn({6, 40}).t();  // not contiguous
  EXPECT_TRUE(at::equal(sample_by_cosine(wide, wide, seed_of(4)),
                        sample_by_cosine(wide.contiguous(), wide.contiguous(), seed_of(4))));
  EXPECT_THROW(sample_by_cosine(one, at::empty({0, 3}), seed_of(0)), c10::Error);
  EXPECT_THROW(sample_by_cosine(one, at::ones({1, 2}), seed_of(0)), c10::Error);
}

}  // namespace
}  // namespace nsvq
