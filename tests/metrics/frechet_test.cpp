// Fréchet distances: golden values of pytorch-fid's formula (golden/frechet.py), statistics, files.
#include "nsvq/metrics/sets/frechet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/io/formats/npz.h"
#include "tests/error_of.h"
#include "tests/losses/random_lpips.h"

namespace nsvq {
namespace {

using nlohmann::json;

/// `features` of the Python script.
torch::Tensor features(const std::string& name, int64_t count, int64_t channels, double offset) {
  const auto mixed = draw(name, {count, channels}).mm(draw(name + " mix", {channels, channels}));
  const auto scale = torch::pow(2, torch::arange(channels, torch::kDouble) * (-3.0 / channels));
  return mixed * scale / std::sqrt(channels / 3.0) + draw(name + " mean", {channels}) + offset;
}

/// In batches of odd sizes, and an empty one.
FrechetStatistics statistics(const torch::Tensor& features) {
  FrechetStatistics gathered(features.size(1));
  for (const auto& batch : features.split(13)) gathered.add(batch);
  gathered.add(features.narrow(0, 0, 0));
  return gathered;
}

torch::Tensor plain_covariance(const torch::Tensor& x) {
  const auto centred = x - x.mean(0);
  return centred.t().mm(centred) / static_cast<double>(x.size(0) - 1);
}

double largest_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(FrechetGolden, MatchesPytorchFid) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/frechet.json");
  const auto cases = json::parse(file);
  ASSERT_GE(cases.size(), 7u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.dump());
    const auto channels = golden.at("channels").get<int64_t>();
    const auto counts = golden.at("counts").get<std::vector<int64_t>>();
    const auto offset = golden.at("offset").get<double>();
    const auto x = statistics(features("x", counts[0], channels, offset));
    const auto y = statistics(features("y", counts[1], channels, offset));
    const auto distance = frechet_distance(x, y);
    const auto theirs = golden.at("pytorch_fid").get<double>();
    const auto exact = golden.at("from_data").get<double>();
    EXPECT_NEAR(distance, theirs, 1e-6 * theirs);
    EXPECT_NEAR(distance, exact, 1e-10 * exact);  // below full rank too
    EXPECT_NEAR(frechet_distance(y, x), distance, 1e-10 * exact);
  }
}

TEST(FrechetDistance, OfIdenticalSetsIsZero) {
  for (const int64_t count : {2, 30, 500}) {
    const auto x = statistics(features("x", count, 65, 3));
    const auto size = x.covariance().trace().item<double>();
    EXPECT_NEAR(frechet_distance(x, x), 0, 1e-12 * size) << count;
    EXPECT_GE(frechet_distance(x, x), 0);
  }
  FrechetStatistics constant(3);
  constant.add(torch::ones({4, 3}));
  EXPECT_EQ(frechet_distance(constant, constant), 0);
}

/// Few vectors make a covariance of low rank, whose factor is not made of eigenvectors.
TEST(FrechetDistance, OfFewVectorsInManyChannels) {
  const auto few = features("x", 20, 131, 3), many = features("y", 400, 131, 2);
  const auto repeated = torch::cat({few, few.narrow(0, 0, 9)});
  for (const auto& x : {few, repeated, few.narrow(0, 0, 2)}) {
    const auto a = statistics(x).gaussian(), b = statistics(many).gaussian();
    // By the symmetric product: the root of S2^(1/2) S1 S2^(1/2).
    const auto [values, vectors] = at::linalg_eigh(b.covariance);
    const auto root = vectors.mul(values.clamp_min(0).sqrt()).mm(vectors.t());
    const auto roots =
        at::linalg_eigvalsh(root.mm(a.covariance).mm(root)).clamp_min(0).sqrt().sum();
    const auto expected =
        (a.mean - b.mean).square().sum() + a.covariance.trace() + b.covariance.trace() - 2 * roots;
    EXPECT_NEAR(frechet_distance(a, b), expected.item<double>(), 1e-5 * expected.item<double>());
    EXPECT_NEAR(frechet_distance(b, a), frechet_distance(a, b), 1e-10 * expected.item<double>());
    EXPECT_NEAR(frechet_distance(statistics(x), statistics(x)), 0, 1e-10);
  }
}

TEST(FrechetDistance, ByHand) {
  // Shifted sets: the shift's square. One channel: (m1 - m2)^2 + (s1 - s2)^2.
  const auto x = features("x", 100, 5, 0);
  EXPECT_NEAR(frechet_distance(statistics(x), statistics(x + 2)), 5 * 4, 1e-10);
  const auto a = torch::tensor({0.0, 2.0}, torch::kDouble).reshape({2, 1});
  const auto b = torch::tensor({10.0, 14.0}, torch::kDouble).reshape({2, 1});
  EXPECT_NEAR(frechet_distance(statistics(a), statistics(b)), 11 * 11 + 2, 1e-12);
}

TEST(FrechetStatistics, MatchesTheWholeSet) {
  for (const double offset : {0.0, 1e5}) {
    const auto x = features("x", 203, 17, offset);
    const auto gathered = statistics(x);
    EXPECT_EQ(gathered.count(), 203);
    EXPECT_LT(largest_difference(gathered.mean(), x.mean(0)), 1e-15 * (1 + offset) * 10);
    EXPECT_LT(largest_difference(gathered.covariance(), plain_covariance(x)),
              1e-13 + 1e-16 * offset);
    EXPECT_TRUE(torch::equal(gathered.covariance(), gathered.covariance().t()));
  }
}

TEST(FrechetStatistics, SumOverProcesses) {
  const auto x = features("x", 90, 6, 100);
  auto all = statistics(x), first = statistics(x.narrow(0, 0, 31));
  auto second = statistics(x.narrow(0, 31, 59));
  auto none = FrechetStatistics(6);
  auto sums = first.sums();
  for (auto* other : {&second, &none}) {
    const auto theirs = other->sums();
    ASSERT_EQ(theirs.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      EXPECT_EQ(theirs[i].sizes(), sums[i].sizes());
      sums[i].add_(theirs[i]);
    }
  }
  EXPECT_EQ(first.count(), 90);
  EXPECT_LT(largest_difference(first.mean(), all.mean()), 1e-12);
  EXPECT_LT(largest_difference(first.covariance(), all.covariance()), 1e-10);
  first.add(x);
  second.sums();  // again: nothing changes
  EXPECT_EQ(first.count(), 180);
  EXPECT_LT(largest_difference(first.mean(), all.mean()), 1e-12);
  EXPECT_LT(largest_difference(second.mean(), x.narrow(0, 31, 59).mean(0)), 1e-12);
}

TEST(FrechetStatistics, AnySplitGivesTheWhole) {
  // Parts of uneven sizes, one vector and none among them, each about a mean of its own.
  const auto x = features("x", 211, 9, 50);
  const auto expected = plain_covariance(x);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{211}, {210, 1}, {1, 0, 210}, {31, 59, 2, 119}, {71, 70, 70}}) {
    SCOPED_TRACE(sizes.size());
    FrechetStatistics whole(9);
    auto sums = whole.sums();
    for (const auto& part : x.split_with_sizes(sizes)) {
      auto own = statistics(part);
      const auto theirs = own.sums();
      for (size_t i = 0; i < sums.size(); ++i) sums[i].add_(theirs[i]);
    }
    EXPECT_EQ(whole.count(), 211);
    EXPECT_LT(largest_difference(whole.mean(), x.mean(0)), 1e-12);
    EXPECT_LT(largest_difference(whole.covariance(), expected), 1e-10);
    EXPECT_LT(frechet_distance(whole, statistics(x)), 1e-9);
  }
  // Batches within one process keep all digits.
  for (const int64_t size : {1, 2, 64, 211}) {
    FrechetStatistics batches(9);
    for (const auto& batch : x.split(size)) batches.add(batch);
    EXPECT_LT(largest_difference(batches.covariance(), expected), 1e-12) << size;
  }
}

TEST(FrechetStatistics, TakesAnyTypeAndLayout) {
  const auto x = features("x", 40, 8, 0).to(torch::kFloat);
  auto whole = statistics(x.to(torch::kDouble));
  EXPECT_LT(largest_difference(statistics(x).covariance(), whole.covariance()), 1e-15);
  EXPECT_LT(largest_difference(statistics(x.t().contiguous().t()).mean(), whole.mean()), 1e-15);
  EXPECT_THROW(whole.add(torch::zeros({2, 9})), c10::Error);
  EXPECT_THROW(whole.add(torch::zeros({8})), c10::Error);
}

TEST(FrechetDistance, MistakesAreOneLine) {
  const auto many = statistics(features("x", 40, 8, 0));
  const auto one = statistics(features("x", 1, 8, 0));
  const auto other = statistics(features("x", 40, 7, 0));
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(error_of([&] { frechet_distance(many, one); }), "at least 2 images, got 1");
  contains(error_of([&] { frechet_distance(FrechetStatistics(8), many); }), "got none");
  contains(error_of([&] { frechet_distance(many, other); }), "8 and 7 channels");
}

TEST(FrechetDistance, OfNanIsNan) {
  auto x = features("x", 40, 8, 0);
  const auto good = statistics(x);
  x[20][3] = NAN;
  EXPECT_TRUE(std::isnan(frechet_distance(statistics(x), good)));
  x[20][3] = INFINITY;
  EXPECT_TRUE(std::isnan(frechet_distance(good, statistics(x))));
}

TEST(FrechetFile, RoundTrip) {
  const TemporaryFolder folder;
  auto gaussian = statistics(features("x", 40, 8, 0)).gaussian();
  gaussian.size = 64;
  write_gaussians(folder / "statistics.npz", {{"fid", gaussian}});
  const auto read = read_gaussian(folder / "statistics.npz");
  EXPECT_TRUE(torch::equal(read.mean, gaussian.mean));
  EXPECT_TRUE(torch::equal(read.covariance, gaussian.covariance));
  EXPECT_EQ(read.count, 40);
  EXPECT_EQ(read.size, 64);
  EXPECT_EQ(read.resize, InceptionResize::pytorch_fid);
  EXPECT_EQ(npz_names(folder / "statistics.npz"),
            (std::vector<std::string>{"image_count", "image_size", "mu", "sigma"}));
  // The format of pytorch-fid.
  write_npz(folder / "theirs.npz", {{"mu", gaussian.mean}, {"sigma", gaussian.covariance}});
  EXPECT_EQ(read_gaussian(folder / "theirs.npz").count, 0);
  EXPECT_EQ(read_gaussian(folder / "theirs.npz").size, 0);
  EXPECT_EQ(read_gaussian(folder / "theirs.npz").resize, std::nullopt);
  // Two metrics in one file.
  auto spatial = statistics(features("y", 40, 5, 0)).gaussian();
  spatial.resize = gaussian.resize = InceptionResize::tensorflow;
  write_gaussians(folder / "both.npz", {{"fid", gaussian}, {"sfid", spatial}});
  EXPECT_TRUE(torch::equal(read_gaussian(folder / "both.npz", "sfid").mean, spatial.mean));
  EXPECT_TRUE(torch::equal(read_gaussian(folder / "both.npz").mean, gaussian.mean));
  EXPECT_EQ(read_gaussian(folder / "both.npz").resize, InceptionResize::tensorflow);
}

TEST(FrechetFile, RefusesOtherContents) {
  const TemporaryFolder folder;
  const auto path = folder / "statistics.npz";
  const auto refused = [&](const TensorMap& arrays, const std::string& part) {
    write_npz(path, arrays);
    const auto error = error_of([&] { read_gaussian(path); });
    EXPECT_NE(error.find(path), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  refused({{"mu", torch::zeros({3})}}, "no array 'sigma'");
  refused({{"mu", torch::zeros({3})}, {"sigma", torch::zeros({3, 4})}}, "[3, 4]");
  refused({{"mu", torch::zeros({3, 1})}, {"sigma", torch::zeros({3, 3})}}, "[3, 1]");
  refused({{"mu", torch::zeros({0})}, {"sigma", torch::zeros({0, 0})}}, "[0]");
  refused({{"mu", torch::full({1}, NAN)}, {"sigma", torch::ones({1, 1})}}, "'mu'");
  const auto sigma = [](double upper, double lower, double variance) {
    return torch::tensor({1.0, upper, lower, variance}, torch::kDouble).reshape({2, 2});
  };
  for (const auto& wrong : {sigma(0, 0, -1), sigma(0.5, 0, 1), sigma(2, 2, 1)}) {
    refused({{"mu", torch::zeros({2})}, {"sigma", wrong}}, "'sigma' is not a covariance");
  }
  for (const auto& number : {torch::full({1}, -1.0), torch::full({1}, 2.5), torch::ones({2}),
                             torch::full({1}, NAN), torch::full({1}, 1e30)}) {
    for (const std::string name : {"image_count", "image_size"}) {
      refused({{"mu", torch::ones({1})}, {"sigma", torch::ones({1, 1})}, {name, number}},
              "'" + name + "'");
    }
  }
}

}  // namespace
}  // namespace nsvq
