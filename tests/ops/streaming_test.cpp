#include "nsvq/ops/code_search/code_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "nsvq/ops/code_search/ns_loss.h"
#include "nsvq/ops/common/dispatch.h"
#include "tests/threads.h"

namespace nsvq::streaming_test {
namespace {

struct Case {
  std::string name;
  torch::Tensor latents, codebook;
};

torch::Tensor copies(const torch::Tensor& base, double apart) {
  const auto all = base.repeat({64, 1});
  return all + at::randn_like(all) * apart;
}

/// Sizes around tiles, panels, pieces and blocks, ties, near ties, large, small and offset values.
std::vector<Case> cases() {
  torch::manual_seed(0);
  std::vector<Case> all;
  for (const int64_t n : {0, 1, 5, 6, 7, 31, 97}) {
    for (const int64_t k : {1, 15, 16, 17, 333}) {
      for (const int64_t d : {1, 8, 31, 128}) {
        all.push_back({"random", at::randn({n, d}), at::randn({k, d}) * 0.5});
      }
    }
  }
  all.push_back(
      {"ties", at::randint(-2, 3, {200, 3}, at::kFloat), at::randint(-2, 3, {500, 3}, at::kFloat)});
  const auto base = at::randn({32, 64});
  all.push_back({"copies 1e-3 apart", at::randn({200, 64}), copies(base, 1e-3)});
  all.push_back({"duplicates", at::randn({200, 64}), copies(base, 0)});
  all.push_back(
      {"large and near", at::randn({200, 64}) * 1e4 + 1e4, copies(base * 1e4 + 1e4, 1e-3)});
  // Close enough for several neighbours to weigh: a loss of one term has one rounding error.
  all.push_back({"wide", at::randn({64, 1024}) * 0.1, at::randn({300, 1024}) * 0.1});
  all.push_back({"blocks", at::randn({513, 8}) * 0.5, at::randn({1100, 8}) * 0.5});
  all.push_back({"close to their codes", base + at::randn({32, 64}) * 1e-2, base});
  return all;
}

TEST(ExactNearestCodes, EqualsTheReference) {
  auto all = cases();
  all.push_back({"tiny", at::randn({50, 16}) * 1e-22, at::randn({300, 16}) * 1e-22});
  all.push_back({"huge", at::randn({50, 16}) * 1e20, at::randn({300, 16}) * 1e20});
  for (const auto type : {at::kBFloat16, at::kHalf, at::kDouble}) {
    all.push_back({"other type", at::randn({50, 16}).to(type), at::randn({300, 16}).to(type)});
  }
  for (const auto& [name, latents, codebook] : all) {
    const auto [indices, distances] = exact_nearest_codes(latents, codebook);
    const auto [expected, expected_distances] = exact_nearest_codes_reference(latents, codebook);
    EXPECT_TRUE(at::equal(indices, expected)) << name << latents.sizes() << codebook.sizes();
    EXPECT_TRUE(at::equal(distances, expected_distances)) << name;
  }
}

TEST(ExactNearestCodes, NonContiguousInputAndAnyNumberOfThreads) {
  torch::manual_seed(1);
  const auto latents = at::randn({8, 1000}).t(), codebook = at::randn({700, 16}).slice(1, 0, 16, 2);
  const auto expected = std::get<0>(exact_nearest_codes_reference(latents, codebook));
  for (const int threads : {1, 2, 5}) {
    const Threads at_work(threads);
    EXPECT_TRUE(at::equal(std::get<0>(exact_nearest_codes(latents, codebook)), expected))
        << threads;
  }
}

TEST(ExactNearestCodes, RefusesWhatHasNoNearestCode) {
  auto bad = at::zeros({3, 2});
  bad[1][0] = NAN;
  EXPECT_THROW(exact_nearest_codes(bad, at::ones({4, 2})), c10::Error);
  EXPECT_THROW(exact_nearest_codes(at::ones({4, 2}), bad), c10::Error);
  EXPECT_THROW(exact_nearest_codes(at::ones({4, 2}), at::empty({0, 2})), c10::Error);
  EXPECT_THROW(exact_nearest_codes(at::ones({4, 2}), at::ones({4, 3})), c10::Error);
}

struct Result {
  double loss;
  torch::Tensor gradient;
};

Result plain(const Case& one, const torch::Tensor& indices, double tau, at::ScalarType type) {
  const auto codebook = one.codebook.to(type).clone().requires_grad_();
  const auto loss = ns_loss(one.latents.to(type), codebook, indices, tau);
  loss.backward();
  return {loss.item<double>(), codebook.grad().to(at::kDouble)};
}

Result streaming(const Case& one, double tau) {
  const auto codebook = one.codebook.clone().requires_grad_();
  const auto loss = ns_search(one.latents, codebook, tau).loss;
  loss.backward();
  return {loss.item<double>(), codebook.grad().to(at::kDouble)};
}

/// Largest errors relative to the exact values, of loss and gradient.
struct Errors {
  double loss = 0, gradient = 0;
  void add(const Result& result, const Result& exact) {
    const double size = exact.gradient.norm().item<double>();
    if (exact.loss < 1e-30 || size < 1e-30) return;
    loss = std::max(loss, std::abs(result.loss - exact.loss) / exact.loss);
    const auto difference = (result.gradient - exact.gradient).norm().item<double>();
    gradient = std::max(gradient, difference / size);
  }
};

// Errors of single cases scatter, so the largest of each family and dimension are compared: at most
// twice those of the plain version in the same precision.
TEST(NsSearch, IsAsAccurateAsThePlainLoss) {
  std::map<std::string, std::pair<Errors, Errors>> families;
  for (const auto& one : cases()) {
    if (one.name == "large and near") continue;  // fp32 products leave no digit of these distances
    const auto indices = std::get<0>(exact_nearest_codes(one.latents, one.codebook));
    for (const double tau : {0.35, 5.0}) {
      const auto exact = plain(one, indices, tau, at::kDouble);
      auto& [theirs, ours] =
          families[fmt::format("{}, d = {}, tau = {}", one.name, one.latents.size(1), tau)];
      theirs.add(plain(one, indices, tau, at::kFloat), exact);
      ours.add(streaming(one, tau), exact);
    }
  }
  for (const auto& [name, errors] : families) {
    const auto& [theirs, ours] = errors;
    constexpr double rounding = 1e-6;
    EXPECT_LE(ours.loss, 2 * theirs.loss + rounding) << name;
    EXPECT_LE(ours.gradient, 2 * theirs.gradient + rounding) << name;
  }
}

TEST(NsSearch, FindsTheNearestCodes) {
  auto all = cases();
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    all.push_back({"other type", at::randn({50, 16}).to(type), at::randn({300, 16}).to(type)});
  }
  for (const auto& one : all) {
    const auto [expected, expected_distances] =
        exact_nearest_codes_reference(one.latents, one.codebook);
    for (const bool gradient : {false, true}) {
      const auto codebook = one.codebook.clone().requires_grad_(gradient);
      const auto found = ns_search(one.latents, codebook, 0.35);
      EXPECT_TRUE(at::equal(found.indices, expected)) << one.name;
      EXPECT_TRUE(at::equal(found.distances, expected_distances)) << one.name;
      EXPECT_TRUE(std::isfinite(found.loss.item<double>())) << one.name;
      EXPECT_EQ(found.loss.requires_grad(), gradient);
      if (!gradient) continue;
      found.loss.backward();
      EXPECT_TRUE(at::isfinite(codebook.grad()).all().item<bool>()) << one.name;
      EXPECT_EQ(codebook.grad().scalar_type(), codebook.scalar_type());
    }
  }
}

// A weight far below the rounding of 1 counts all the same.
TEST(NsSearch, KeepsTheWinnerOutOfTheSums) {
  const auto latents = at::zeros({1, 1});
  const auto codebook = at::tensor({2.0f, 3.0f, 0.0f, -2.0f}).unsqueeze(1);
  const double tau = 0.2, weight = 2 * std::exp(-4 / tau);
  const auto loss = ns_search(latents, codebook, tau).loss.item<double>();
  EXPECT_NEAR(loss / (4 * weight), 1, 1e-5);
}

TEST(NsSearch, TheSameForAnyNumberOfThreads) {
  torch::manual_seed(2);
  const Case one{"", at::randn({700, 16}) * 0.3, at::randn({1900, 16}) * 0.3};
  const auto with = [&](int threads) {
    const Threads at_work(threads);
    return streaming(one, 0.35);
  };
  const auto expected = with(1);
  for (const int threads : {2, 3, 5}) {
    const auto other = with(threads);
    EXPECT_EQ(other.loss, expected.loss);
    EXPECT_TRUE(at::equal(other.gradient, expected.gradient));
  }
}

using Searched = std::tuple<torch::Tensor, torch::Tensor, torch::Tensor, torch::Tensor>;

Searched search_operator(const torch::Tensor& latents, const torch::Tensor& codebook, double tau) {
  using Search = Searched(const torch::Tensor&, const torch::Tensor&, double);
  return operator_named<Search>("nsvq::ns_search").call(latents, codebook, tau);
}

torch::Tensor pull_operator(const torch::Tensor& latents, const torch::Tensor& codebook,
                            const torch::Tensor& indices, const torch::Tensor& denominators,
                            double tau) {
  using Pull = torch::Tensor(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                             const torch::Tensor&, double);
  return operator_named<Pull>("nsvq::ns_pull").call(latents, codebook, indices, denominators, tau);
}

// The gradient with kept weights, and the one from scores computed once more.
TEST(NsPull, IsTheGradientOfNsSearch) {
  for (const auto& one : cases()) {
    if (one.latents.size(0) == 0 || one.name == "large and near") continue;
    const auto [indices, distances, losses, denominators] =
        search_operator(one.latents, one.codebook, 0.35);
    const auto pull = pull_operator(one.latents, one.codebook, indices, denominators, 0.35);
    const auto gradient = streaming(one, 0.35).gradient;
    const auto difference = pull.to(at::kDouble) * (2.0 / one.latents.numel()) - gradient;
    EXPECT_LE(difference.norm().item<double>(), 1e-4 * gradient.norm().item<double>() + 1e-12)
        << one.name << one.latents.sizes() << one.codebook.sizes();
  }
}

TEST(NsSearch, MoreCodesThanWeightsAreKeptFor) {
  torch::manual_seed(3);
  const Case one{"", at::randn({40, 4}), at::randn({66000, 4})};
  const auto indices = std::get<0>(exact_nearest_codes(one.latents, one.codebook));
  const auto exact = plain(one, indices, 0.35, at::kDouble);
  Errors errors;
  errors.add(streaming(one, 0.35), exact);
  EXPECT_LT(errors.loss, 1e-5);
  EXPECT_LT(errors.gradient, 1e-5);
}

TEST(NsSearch, RefusesWhatItCannotDo) {
  const auto latents = at::ones({3, 2}), codebook = at::ones({4, 2});
  auto bad = codebook.clone();
  bad[1][0] = INFINITY;
  EXPECT_THROW(ns_search(latents, bad, 0.35), c10::Error);
  EXPECT_THROW(ns_search(bad, codebook, 0.35), c10::Error);
  EXPECT_THROW(ns_search(latents * 1e20, codebook, 0.35), c10::Error);
  EXPECT_THROW(ns_search(latents, codebook, 0), c10::Error);
  EXPECT_THROW(ns_search(latents, codebook.to(at::kDouble), 0.35), c10::Error);
  EXPECT_THROW(ns_search(latents, at::ones({4, 3}), 0.35), c10::Error);
  const auto outside = at::full({3}, 4, at::kLong);
  EXPECT_THROW(pull_operator(latents, codebook, outside, at::ones({3}), 0.35), c10::Error);
}

TEST(NsSearch, ShapesForTracing) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const auto latents = at::empty({5, 3}, meta.dtype(at::kHalf)), codebook = at::empty({7, 3}, meta);
  const auto [indices, distances, losses, denominators] = search_operator(latents, codebook, 0.35);
  EXPECT_EQ(indices.scalar_type(), at::kLong);
  for (const auto& one : {indices, distances, losses, denominators}) {
    EXPECT_EQ(one.sizes(), at::IntArrayRef({5}));
    EXPECT_TRUE(one.is_meta());
  }
  EXPECT_EQ(losses.scalar_type(), at::kFloat);
  EXPECT_EQ(pull_operator(latents, codebook, indices, denominators, 0.35).sizes(),
            codebook.sizes());
  EXPECT_EQ(std::get<0>(exact_nearest_codes(latents, codebook)).sizes(), at::IntArrayRef({5}));
}

}  // namespace
}  // namespace nsvq::streaming_test
