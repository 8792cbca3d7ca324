#include "nsvq/quantizers/replacement/kmeans.h"

#include <gtest/gtest.h>

#include "nsvq/quantizers/codebook.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

torch::Tensor distances(const torch::Tensor& points, const torch::Tensor& centres) {
  return (points.unsqueeze(1) - centres.unsqueeze(0)).to(at::kDouble).square().sum(2);
}

double squared_error(const torch::Tensor& points, const torch::Tensor& centres) {
  return std::get<0>(distances(points, centres).min(1)).mean().item<double>();
}

torch::Tensor blobs(int64_t count, int64_t each, int64_t dim) {
  torch::manual_seed(6);
  const auto middles = at::randn({count, dim}) * 100;
  return (middles.repeat({each, 1}) + at::randn({count * each, dim})).contiguous();
}

TEST(Kmeans, FindsClustersThatLieApart) {
  const int64_t count = 11;
  const auto points = blobs(count, 50, 3);
  const auto centres = kmeans(points, count, 10, 1);
  const auto means = points.view({50, count, 3}).mean(0);
  const auto nearest = std::get<0>(distances(means, centres).min(1));
  EXPECT_LT(nearest.max().item<double>(), 1e-6);
}

TEST(Kmeans, CentresAreTheMeansOfTheirPoints) {
  torch::manual_seed(6);
  const auto points = at::randn({500, 4});
  const auto centres = kmeans(points, 9, 200, 1);  // to the end
  const auto indices = distances(points, centres).argmin(1);
  for (int64_t k = 0; k < 9; ++k) {
    const auto own = points.index_select(0, indices.eq(k).nonzero().flatten());
    EXPECT_TRUE(at::allclose(centres[k], own.mean(0), 1e-4, 1e-5)) << k;
  }
}

TEST(Kmeans, IterationsReduceTheError) {
  torch::manual_seed(6);
  const auto points = at::randn({1000, 4});
  const double start = squared_error(points, kmeans(points, 300, 0, 1));  // several drawn at a time
  const double one = squared_error(points, kmeans(points, 300, 1, 1));
  const double ten = squared_error(points, kmeans(points, 300, 10, 1));
  EXPECT_LT(one, start);
  EXPECT_LT(ten, one);
}

TEST(Kmeans, StartsAtDifferentPointsThatLieApart) {
  const auto points = blobs(200, 10, 2);
  const auto centres = kmeans(points, 200, 0, 1);
  EXPECT_EQ(std::get<0>(at::unique_dim(centres, 0)).size(0), 200);
  const auto spread = squared_error(points, centres);
  auto drawn = at::empty({200, 2});
  sample_codes(drawn, points, 1);
  EXPECT_LT(spread, 0.5 * squared_error(points, drawn));
}

TEST(Kmeans, TheSeedAloneDecides) {
  torch::manual_seed(6);
  const auto points = at::randn({400, 5});
  const auto a = kmeans(points, 20, 5, 1);
  torch::manual_seed(99);
  EXPECT_TRUE(at::equal(a, kmeans(points, 20, 5, 1)));
  EXPECT_FALSE(at::equal(a, kmeans(points, 20, 5, 2)));
}

TEST(Kmeans, LayoutAndPrecisionOfThePointsDoNotMatter) {
  torch::manual_seed(6);
  const auto points = at::randn({3, 100}).to(at::kBFloat16).to(at::kFloat);
  const auto centres = kmeans(points.t().contiguous(), 7, 3, 1);
  EXPECT_TRUE(at::equal(centres, kmeans(points.t(), 7, 3, 1)));
  EXPECT_TRUE(at::equal(centres, kmeans(points.t().to(at::kDouble), 7, 3, 1)));
  EXPECT_TRUE(at::equal(centres, kmeans(points.t().to(at::kBFloat16), 7, 3, 1)));
  EXPECT_EQ(centres.scalar_type(), at::kFloat);
}

TEST(Kmeans, EmptyClustersStartAnew) {
  // Points that are the same many times over: k-means++ cannot find seven different ones.
  const auto different = at::randn({4, 3}) * 10;
  const auto points = different.repeat({30, 1});
  const auto centres = kmeans(points, 7, 5, 1);
  EXPECT_TRUE(at::isfinite(centres).all().item<bool>());
  EXPECT_LT(squared_error(points, centres), 1e-9);
  EXPECT_LT(squared_error(centres, points), 1e-9) << "a cluster without points is a point";
}

TEST(Kmeans, FewerPointsThanClusters) {
  for (const int64_t n : {1, 5, 6}) {
    torch::manual_seed(6);
    const auto points = at::randn({n, 3});
    const auto centres = kmeans(points, 6, 3, 1);
    EXPECT_EQ(centres.sizes(), (std::vector<int64_t>{6, 3}));
    EXPECT_TRUE(at::isfinite(centres).all().item<bool>()) << n;
    EXPECT_LT(squared_error(points, centres), 1e-4);
  }
}

TEST(Kmeans, NothingToClusterIsRefused) {
  EXPECT_ANY_THROW(kmeans(at::empty({0, 3}), 2, 1, 1));
  EXPECT_ANY_THROW(kmeans(at::zeros({4, 3}), 0, 1, 1));
  EXPECT_ANY_THROW(kmeans(at::full({4, 3}, NAN), 2, 1, 1));
}

TEST(Kmeans, TellsOfEveryIteration) {
  std::vector<int64_t> told;
  kmeans(at::randn({50, 2}), 3, 4, 1, [&](int64_t done) { told.push_back(done); });
  EXPECT_EQ(told, (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(Kmeans, StartsCodebooks) {
  for (const auto& type : {"vq", "nsvq", "ema", "jukebox", "soundstream", "cvq"}) {
    SCOPED_TRACE(type);
    auto small = member(type);
    small.config.codes = 8;
    if (std::string(type) != "soundstream") small.config.init = "kmeans";
    const auto quantizer = make(small);
    ASSERT_TRUE(quantizer->wants_data());
    EXPECT_EQ(quantizer->latents_wanted(), 64);
    const auto points = flatten_latents(latents_for(small, 4));
    quantizer->initialise_from(points, 5);
    EXPECT_TRUE(at::equal(quantizer->codebook(), kmeans(points, 8, 10, 5)));
  }
}

}  // namespace
}  // namespace nsvq
