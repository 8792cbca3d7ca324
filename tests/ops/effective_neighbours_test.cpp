#include "nsvq/ops/code_statistics/effective_neighbours.h"

#include <gtest/gtest.h>

#include <cmath>

namespace nsvq::neighbours_test {
namespace {

/// The definition in fp64, from differences.
torch::Tensor by_hand(const torch::Tensor& latents, const torch::Tensor& codebook, double tau) {
  const auto difference =
      latents.detach().to(at::kDouble).unsqueeze(1) - codebook.detach().to(at::kDouble);
  const auto p = at::softmax(difference.square().sum(2) / -tau, 1);
  return at::special_entr(p).sum(1).exp();
}

void expect_close(const torch::Tensor& got, const torch::Tensor& expected, double tolerance) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(got.to(at::kDouble), expected, tolerance, 0))
      << "worst ratio " << (got.to(at::kDouble) / expected - 1).abs().max().item<double>();
}

TEST(Neighbours, EqualTheDefinition) {
  torch::manual_seed(0);
  for (const int64_t n : {1, 31, 33}) {
    for (const int64_t k : {1, 2, 33}) {
      for (const double tau : {0.05, 0.35, 5.0}) {
        const auto latents = at::randn({n, 4}) * 0.5, codebook = at::randn({k, 4}) * 0.5;
        expect_close(effective_neighbours(latents, codebook, tau), by_hand(latents, codebook, tau),
                     1e-5);
        expect_close(effective_neighbours(latents.to(at::kDouble), codebook.to(at::kDouble), tau),
                     by_hand(latents, codebook, tau), 1e-12);
      }
    }
  }
}

TEST(Neighbours, AnIsolatedCodeIsAlone) {
  const auto codebook = at::eye(5) * 100;
  EXPECT_TRUE(at::equal(effective_neighbours(codebook, codebook, 0.35), at::ones({5})));
}

TEST(Neighbours, EqualCodesShareAlike) {
  expect_close(effective_neighbours(at::randn({3, 4}), at::ones({1000, 4}), 0.35),
               at::full({3}, 1000.0, at::kDouble), 1e-5);
}

TEST(Neighbours, TwoOfThreeAtTheSameDistance) {
  const auto codebook = at::tensor({1.0, -1.0, 50.0}).view({3, 1});
  expect_close(effective_neighbours(at::zeros({1, 1}, at::kDouble), codebook, 0.35),
               at::full({1}, 2.0, at::kDouble), 1e-12);
}

TEST(Neighbours, LatentsFarAwayKeepTheirPrecision) {
  torch::manual_seed(1);
  const auto latents = at::randn({7, 4}) + 1000;
  const auto codebook = at::randn({9, 4}) * 1e-4;
  expect_close(effective_neighbours(latents, codebook, 0.35), by_hand(latents, codebook, 0.35),
               1e-4);
  EXPECT_TRUE(at::isfinite(effective_neighbours(latents * 1e6, codebook, 0.01)).all().item<bool>());
}

// 128 rows are held at a time: here two whole pieces and a smaller one.
TEST(Neighbours, ManyPieces) {
  torch::manual_seed(2);
  const auto latents = at::randn({300, 2}), codebook = at::randn({1 << 16, 2});
  const auto neighbours = effective_neighbours(latents, codebook, 0.35);
  ASSERT_EQ(neighbours.numel(), 300);
  for (const int64_t row : {0, 127, 128, 255, 256, 299}) {
    expect_close(neighbours.slice(0, row, row + 1),
                 by_hand(latents.slice(0, row, row + 1), codebook, 0.35), 1e-4);
  }
}

TEST(Neighbours, NoLatents) {
  EXPECT_EQ(effective_neighbours(at::empty({0, 3}), at::ones({5, 3}), 1).sizes(),
            std::vector<int64_t>{0});
}

TEST(Neighbours, NonContiguousInputWithoutGradient) {
  torch::manual_seed(3);
  const auto latents = at::randn({4, 33}).t();
  const auto codebook = at::randn({8, 31}).t().slice(1, 0, 8, 2).requires_grad_();
  const auto neighbours = effective_neighbours(latents, codebook, 0.5);
  EXPECT_FALSE(neighbours.requires_grad());
  expect_close(neighbours, by_hand(latents, codebook, 0.5), 1e-5);
}

TEST(Neighbours, NaNStaysWithItsLatent) {
  auto latents = at::zeros({2, 3});
  latents[1][2] = NAN;
  const auto neighbours = effective_neighbours(latents, at::ones({5, 3}), 1);
  EXPECT_NEAR(neighbours[0].item<double>(), 5, 1e-5);
  EXPECT_TRUE(std::isnan(neighbours[1].item<double>()));
}

TEST(Neighbours, RefuseWhatHasNoAnswer) {
  EXPECT_THROW(effective_neighbours(at::ones({5, 3}), at::ones({5, 4}), 1), c10::Error);
  EXPECT_THROW(effective_neighbours(at::ones({5, 3}), at::empty({0, 3}), 1), c10::Error);
  EXPECT_THROW(effective_neighbours(at::ones({5, 3}), at::ones({5, 3}), 0), c10::Error);
}

}  // namespace
}  // namespace nsvq::neighbours_test
