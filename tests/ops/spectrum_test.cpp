// Spectra of covariances against figures by hand and singular values.

#include "nsvq/ops/code_statistics/spectrum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nsvq {
namespace {

/// d shares of the variance of rows [n, d] by the singular values of the centred rows.
std::vector<double> expected_spectrum(const torch::Tensor& rows) {
  const auto wide = rows.detach().to(at::kDouble);
  const auto variances = at::linalg_svdvals(wide - wide.mean(0)).square();
  const auto shares = (variances / variances.sum()).contiguous();
  const auto* first = shares.const_data_ptr<double>();
  std::vector<double> all(first, first + shares.numel());
  all.resize(rows.size(1));  // without variance in directions beyond the n rows
  return all;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9) << i;
  EXPECT_TRUE(std::is_sorted(found.rbegin(), found.rend()));
  EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), 1, 1e-12);
  for (const double share : found) EXPECT_GE(share, 0);
}

TEST(Spectrum, OfPointsByHand) {
  const auto cross = at::tensor({1., 0., -1., 0., 0., 2., 0., -2.}).view({4, 2});
  for (const auto& vectors : {cross, cross + at::tensor({10., -3.}), cross.to(at::kFloat) * 1e-20,
                              cross.to(at::kBFloat16), cross.to(at::kHalf)}) {
    const auto spectrum = covariance_spectrum(vectors);  // sums of squares 8 and 2
    expect_near(spectrum, {0.8, 0.2});
    EXPECT_NEAR(participation_ratio(spectrum), 1 / 0.68, 1e-9);
  }
  // Around the mean (2/3, 1/3): the sums are 2/3 and 2/3, that of the products 1/3.
  const auto triangle = covariance_spectrum(at::tensor({0., 0., 1., 0., 1., 1.}).view({3, 2}));
  expect_near(triangle, {0.75, 0.25});
  EXPECT_NEAR(participation_ratio(triangle), 1.6, 1e-9);
}

TEST(Spectrum, CountsTheDirectionsOfAFigure) {
  EXPECT_NEAR(participation_ratio(covariance_spectrum(at::eye(5))), 4, 1e-9) << "a simplex";
  const auto line = at::linspace(-1, 1, 20).unsqueeze(1) * at::tensor({3., 0., -4.});
  EXPECT_NEAR(participation_ratio(covariance_spectrum(line)), 1, 1e-9);
}

TEST(Spectrum, IsThatOfSingularValues) {
  torch::manual_seed(0);
  for (const auto& [n, d] : std::vector<std::pair<int64_t, int64_t>>{
           {2, 1}, {2, 2}, {3, 7}, {7, 3}, {2, 40}, {31, 33}, {1001, 17}}) {
    SCOPED_TRACE(testing::Message() << n << " x " << d);
    const auto vectors = at::randn({n, d}) * at::rand({d});
    expect_near(covariance_spectrum(vectors), expected_spectrum(vectors));
    const auto other_way = vectors.t().contiguous().t();  // not contiguous
    expect_near(covariance_spectrum(other_way), expected_spectrum(vectors));
    expect_near(covariance_spectrum(vectors.clone().requires_grad_()), expected_spectrum(vectors));
  }
}

TEST(Spectrum, OfManyVectorsFarFromZero) {
  torch::manual_seed(0);
  // In three pieces.
  const auto vectors = at::randn({400001, 6}) * at::arange(6, at::kFloat) + 100;
  const auto spectrum = covariance_spectrum(vectors);
  expect_near(spectrum, expected_spectrum(vectors));
  // Variances 0 1 4 9 16 25: 55^2 / 979.
  EXPECT_NEAR(participation_ratio(spectrum), 3025. / 979, 0.02);
}

TEST(Spectrum, IsEmptyWithoutVariance) {
  const auto expect_empty = [](const torch::Tensor& vectors) {
    SCOPED_TRACE(testing::Message() << vectors.sizes());
    const auto spectrum = covariance_spectrum(vectors);
    EXPECT_TRUE(spectrum.empty());
    EXPECT_TRUE(std::isnan(participation_ratio(spectrum)));
  };
  for (const double value : {0.0, 0.1, -3e7, double{NAN}, double{INFINITY}}) {
    for (const int64_t n : {1, 2, 7, 300001}) expect_empty(at::full({n, 5}, value));
  }
  for (const auto& [n, d] : {std::pair<int64_t, int64_t>{0, 3}, {3, 0}, {0, 0}}) {
    expect_empty(at::empty({n, d}));
  }
  for (const double value : {double{NAN}, double{-INFINITY}}) {
    for (const int64_t row : {0, 4}) {
      auto vectors = at::randn({5, 3});
      vectors[row][1] = value;
      expect_empty(vectors);
    }
  }
  EXPECT_THROW(covariance_spectrum(at::zeros({3})), c10::Error);
}

TEST(Spectrum, OfOneDimensionIsWhole) {
  expect_near(covariance_spectrum(at::tensor({3., 5.}).view({2, 1})), {1});
}

TEST(Directions, HaveTheRatioOfAllAndTheLargestShares) {
  torch::manual_seed(0);
  const auto vectors = at::randn({100, 40});
  const auto spectrum = covariance_spectrum(vectors);
  const auto directions = directions_of(vectors);
  EXPECT_EQ(directions.participation, participation_ratio(spectrum));
  EXPECT_EQ(directions.shares, std::vector<double>(spectrum.begin(), spectrum.begin() + 32));
  EXPECT_EQ(directions_of(vectors.slice(1, 0, 3)).shares.size(), 3u);
  const auto none = directions_of(at::ones({4, 2}));
  EXPECT_TRUE(std::isnan(none.participation));
  EXPECT_TRUE(none.shares.empty());
}

TEST(Directions, AreToldWhereTheyWereMeasured) {
  EXPECT_EQ(participation_text(3.091, 5.1), "participation 3.09 (codes 5.10)");
  EXPECT_EQ(participation_text(3.091, NAN), "participation 3.09");
  EXPECT_EQ(participation_text(NAN, 5.1), "");
}

}  // namespace
}  // namespace nsvq
