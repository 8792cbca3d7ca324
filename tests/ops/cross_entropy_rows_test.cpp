#include "nsvq/ops/transformer/cross_entropy_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/core/device.h"

namespace nsvq {
namespace {

using torch::Tensor;

double error_of(const Tensor& values, const Tensor& exact) {
  return (values.cpu().to(at::kDouble) - exact).norm().item<double>();
}

/// Losses and gradients of bf16 logits beside those in fp64.
void expect_rows_on(c10::Device device, int64_t rows, int64_t codes, bool with_factors) {
  SCOPED_TRACE(fmt::format("{} rows of {}", rows, codes));
  const auto logits = (at::randn({rows, codes}) * 3).to(at::kBFloat16);
  const auto targets = at::randint(codes, {rows}, at::kLong);
  const auto factors = with_factors ? at::randn({rows}) : Tensor();
  const auto exact = logits.to(at::kDouble).requires_grad_();
  const auto losses = at::cross_entropy_loss(exact, targets, {}, at::Reduction::None);
  (with_factors ? losses * factors.to(at::kDouble) : losses).sum().backward();

  const auto own = logits.to(device).clone();
  const auto own_factors = with_factors ? factors.to(device) : factors;
  const auto kept = cross_entropy_rows(own, targets.to(device), own_factors, LogitsAfter::kept);
  EXPECT_TRUE(at::equal(own.cpu(), logits));
  const auto found =
      cross_entropy_rows(own, targets.to(device), own_factors, LogitsAfter::gradient);
  EXPECT_EQ(found.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(kept, found));
  EXPECT_LE(error_of(found, losses.detach()), 1e-6 * losses.norm().item<double>() + 1e-6);
  // Each number is rounded once, by at most 2^-9 of itself.
  const auto gradient = exact.grad();
  const auto bound = gradient.abs() * 0x1p-8 + 1e-6;
  EXPECT_TRUE((own.cpu().to(at::kDouble) - gradient).abs().le(bound).all().item<bool>());
}

void expect_all_rows_on(c10::Device device) {
  torch::manual_seed(0);
  for (const auto& [rows, codes] : {std::pair<int64_t, int64_t>{1, 1},
                                    {3, 7},
                                    {5, 8},
                                    {31, 33},
                                    {2, 1000},
                                    {4, 8191},
                                    {4, 8200},
                                    {3, 16385},
                                    {2, 65536}}) {
    expect_rows_on(device, rows, codes, false);
    expect_rows_on(device, rows, codes, true);
  }
  const auto nothing = at::empty({0, 8}, at::device(device).dtype(at::kBFloat16));
  const auto none = at::empty({0}, at::device(device).dtype(at::kLong));
  EXPECT_EQ(cross_entropy_rows(nothing, none, {}, LogitsAfter::gradient).numel(), 0);
  auto broken = at::zeros({2, 16}, at::kBFloat16);
  broken[1][9] = NAN;
  const auto losses = cross_entropy_rows(broken.to(device), at::zeros({2}, at::kLong).to(device),
                                         {}, LogitsAfter::gradient);
  EXPECT_NEAR(losses[0].item<double>(), std::log(16.0), 1e-5);
  EXPECT_TRUE(losses[1].isnan().item<bool>());
}

TEST(CrossEntropyRows, OnTheCpu) { expect_all_rows_on(at::kCPU); }

TEST(CrossEntropyRows, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_all_rows_on(at::kCUDA);
}

TEST(CrossEntropyRows, RefusesOtherShapes) {
  const auto logits = at::zeros({2, 4}, at::kBFloat16);
  EXPECT_THROW(cross_entropy_rows(logits, at::zeros({3}, at::kLong), {}, LogitsAfter::kept),
               c10::Error);
  EXPECT_THROW(cross_entropy_rows(logits, at::zeros({2}), {}, LogitsAfter::kept), c10::Error);
  EXPECT_THROW(
      cross_entropy_rows(logits, at::zeros({2}, at::kLong), at::zeros({1}), LogitsAfter::kept),
      c10::Error);
}

}  // namespace
}  // namespace nsvq
