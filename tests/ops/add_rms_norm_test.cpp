#include "nsvq/ops/transformer/add_rms_norm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/ops/transformer/kept_bits.h"

namespace nsvq::add_rms_norm_test {
namespace {

using torch::Tensor;

constexpr double kEps = 1e-5, kShare = 0.25;

struct Case {
  Tensor x, values, kept, weight, sum_gradient, gradient;

  Case(int64_t rows, int64_t width, bool with_values, bool drops)
      : x(at::randn({1, rows, width}) * 2),
        values(with_values ? at::randn({1, rows, width}).to(at::kBFloat16) : Tensor()),
        kept(drops ? kept_bits(values, kShare) : Tensor()),
        weight(at::randn({width}) + 1),
        sum_gradient(at::randn({1, rows, width})),
        gradient(at::randn({1, rows, width}).to(at::kBFloat16)) {}
};

/// Results and gradients in fp64 on the CPU; with all tensors cast to fp64 where `exact`.
template <typename Operator>
TensorMap run(Operator op, const Case& one, bool exact, c10::Device device) {
  const auto prepared = [&](const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    const bool bits = tensor.scalar_type() == at::kByte;
    const auto moved = tensor.to(device).detach().clone();
    return (exact && !bits ? moved.to(at::kDouble) : moved).requires_grad_(!bits);
  };
  const auto x = prepared(one.x), weight = prepared(one.weight);
  const Branch branch{prepared(one.values), prepared(one.kept), one.kept.defined() ? kShare : 0};
  const auto [sum, output] = op(x, branch, weight, kEps);
  const auto own = [&](const Tensor& gradient, const Tensor& like) {
    return gradient.to(device).to(like.scalar_type());
  };
  ((output * own(one.gradient, output)).sum().to(at::kDouble) +
   (sum * own(one.sum_gradient, sum)).sum().to(at::kDouble))
      .backward();
  const auto wide = [](const Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  TensorMap results = {{"sum", wide(sum)},
                       {"output", wide(output)},
                       {"x's gradient", wide(x.grad())},
                       {"weight's gradient", wide(weight.grad())}};
  if (branch.values.defined()) results["values' gradient"] = wide(branch.values.grad());
  return results;
}

/// A result that is rounded once to bf16 may differ by 2^-9 of itself, others by what fp32 rounds.
void expect_accurate(const Case& one, c10::Device device) {
  const auto exact = run(add_rms_norm_reference, one, true, at::kCPU);
  const auto ours = run(add_rms_norm, one, false, device);
  ASSERT_EQ(ours.size(), exact.size());
  for (const auto& [name, expected] : exact) {
    const bool narrow = name == "output" || name == "values' gradient";
    const double error = (ours.at(name) - expected).norm().item<double>();
    EXPECT_LE(error, (narrow ? 0x1p-8 : 4e-6) * expected.norm().item<double>() + 1e-6)
        << name << " of " << one.x.sizes();
  }
}

void expect_accurate_on(c10::Device device) {
  torch::manual_seed(0);
  for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 8},
                                    {3, 16},
                                    {31, 248},
                                    {33, 256},
                                    {5, 264},
                                    {129, 768},
                                    {4, 1024},
                                    {7, 1280},
                                    {3, 1536},
                                    {2, 1792},
                                    {6, 2048},
                                    {20000, 24}}) {
    expect_accurate(Case(rows, width, false, false), device);
    expect_accurate(Case(rows, width, true, false), device);
    expect_accurate(Case(rows, width, true, true), device);
  }
  const auto nothing = run(add_rms_norm, Case(0, 16, true, false), false, device);
  EXPECT_EQ(nothing.at("weight's gradient").abs().max().item<double>(), 0);
}

TEST(AddRmsNorm, OnTheCpu) { expect_accurate_on(at::kCPU); }

TEST(AddRmsNorm, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_accurate_on(at::kCUDA);
}

TEST(AddRmsNorm, RepeatsItselfOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Case one(20000, 768, true, true);
  const auto first = run(add_rms_norm, one, false, at::kCUDA);
  for (const auto& [name, tensor] : run(add_rms_norm, one, false, at::kCUDA)) {
    EXPECT_TRUE(at::equal(tensor, first.at(name))) << name;
  }
}

// Only one of the two results is used.
TEST(AddRmsNorm, OfOneResult) {
  const Case one(3, 16, true, false);
  const auto x = one.x.clone().requires_grad_();
  const auto [sum, output] = add_rms_norm(x, {one.values}, one.weight, kEps);
  sum.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones_like(x)));
}

void expect_share_on(c10::Device device) {
  torch::manual_seed(3);
  const auto values = at::empty({300, 1024}, at::device(device));
  const auto bits = kept_bits(values, 0.1), other = kept_bits(values, 0.1);
  EXPECT_EQ(bits.sizes(), (std::vector<int64_t>{300, 128}));
  EXPECT_FALSE(at::equal(bits, other));
  const auto kept = bits_as_numbers(bits.cpu(), at::kDouble);
  // Five deviations of a mean of 307,200, and of 300 for each of the bits.
  EXPECT_NEAR(kept.mean().item<double>(), 0.9, 5 * 0.3 / std::sqrt(307200.0));
  EXPECT_LT((kept.mean(0) - 0.9).abs().max().item<double>(), 5 * 0.3 / std::sqrt(300.0));
  const auto both = bits_as_numbers(other.cpu(), at::kDouble) * kept;
  EXPECT_NEAR(both.mean().item<double>(), 0.81, 5 * 0.4 / std::sqrt(307200.0));
  torch::manual_seed(3);
  EXPECT_TRUE(at::equal(kept_bits(values, 0.1), bits));
  EXPECT_TRUE(kept_bits(values, 0).eq(255).all().item<bool>());
}

TEST(KeptBits, OnTheCpu) { expect_share_on(at::kCPU); }

TEST(KeptBits, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_share_on(at::kCUDA);
}

}  // namespace
}  // namespace nsvq::add_rms_norm_test
