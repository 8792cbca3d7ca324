#include "nsvq/ops/streaming.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "nsvq/ops/ns_loss.h"

namespace nsvq {
namespace {

struct Case {
  std::string name;
  torch::Tensor latents, codebook;
};

torch::Tensor copies(const torch::Tensor& base, double apart) {
  const auto all = base.repeat({64, 1});
  return all + at::randn_like(all) * apart;
}

/// Sizes around tiles and panels, ties, near ties, large, small and offset values.
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
  all.push_back({"wide", at::randn({9, 1024}), at::randn({50, 1024})});
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
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 5}) {
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(std::get<0>(exact_nearest_codes(latents, codebook)), expected))
        << threads;
  }
  at::set_num_threads(before);
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

template <typename Loss>
Result run(Loss loss, const Case& one, const torch::Tensor& indices, at::ScalarType type) {
  const auto codebook = one.codebook.to(type).clone().requires_grad_();
  const auto value = loss(one.latents.to(type), codebook, indices, 0.35);
  value.backward();
  return {value.template item<double>(), codebook.grad().to(at::kDouble)};
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
TEST(StreamingNsLoss, IsAsAccurateAsThePlainOne) {
  std::map<std::string, std::pair<Errors, Errors>> families;
  for (const auto& one : cases()) {
    if (one.name == "large and near") continue;  // fp32 products leave no digit of these distances
    const auto indices = std::get<0>(exact_nearest_codes(one.latents, one.codebook));
    const auto exact = run(ns_loss, one, indices, at::kDouble);
    auto& [plain, ours] = families[fmt::format("{}, d = {}", one.name, one.latents.size(1))];
    plain.add(run(ns_loss, one, indices, at::kFloat), exact);
    ours.add(run(streaming_ns_loss, one, indices, at::kFloat), exact);
  }
  for (const auto& [name, errors] : families) {
    const auto& [plain, ours] = errors;
    constexpr double rounding = 1e-6;
    EXPECT_LE(ours.loss, 2 * plain.loss + rounding) << name;
    EXPECT_LE(ours.gradient, 2 * plain.gradient + rounding) << name;
  }
}

TEST(StreamingNsLoss, TheSameForAnyNumberOfThreads) {
  torch::manual_seed(2);
  const Case one{"", at::randn({500, 16}) * 0.3, at::randn({900, 16}) * 0.3};
  const auto indices = std::get<0>(exact_nearest_codes(one.latents, one.codebook));
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto expected = run(streaming_ns_loss, one, indices, at::kFloat);
  at::set_num_threads(3);
  const auto other = run(streaming_ns_loss, one, indices, at::kFloat);
  at::set_num_threads(before);
  EXPECT_EQ(other.loss, expected.loss);
  EXPECT_TRUE(at::equal(other.gradient, expected.gradient));
}

}  // namespace
}  // namespace nsvq
