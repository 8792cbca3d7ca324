#include "nsvq/ops/group_norm/group_norm_silu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <cmath>
#include <map>

#include "nsvq/core/device.h"
#include "nsvq/core/tensor_map.h"
#include "tests/threads.h"

namespace nsvq::group_norm_silu_test {
namespace {

constexpr double kEps = 1e-6;

struct Case {
  std::string name;
  torch::Tensor input;  ///< fp32
  int64_t groups;
  torch::Tensor weight, bias, gradient;

  Case(std::string name, torch::Tensor input, int64_t groups)
      : name(std::move(name)),
        input(std::move(input)),
        groups(groups),
        weight(at::randn({this->input.size(1)}) + 1),
        bias(at::randn({this->input.size(1)})),
        gradient(at::randn(this->input.sizes())) {}
};

torch::Tensor images(int64_t n, int64_t c, int64_t h, int64_t w) {
  return (at::randn({n, c, h, w}) * 2 + 0.5).contiguous(at::MemoryFormat::ChannelsLast);
}

/// Cases: sizes around vectors, blocks and splits, groups of all sizes, layouts.
std::vector<Case> cases() {
  torch::manual_seed(0);
  std::vector<Case> all;
  for (const int64_t side : {1, 3, 31, 33}) {
    for (const auto& [channels, groups] : std::vector<std::pair<int64_t, int64_t>>{
             {64, 32}, {64, 1}, {64, 64}, {24, 6}, {30, 10}, {7, 7}, {96, 3}}) {
      all.emplace_back(fmt::format("{} channels, {} groups", channels, groups),
                       images(2, channels, side, side + (side > 1)), groups);
    }
  }
  all.emplace_back("512 channels", images(3, 512, 8, 8), 32);
  all.emplace_back("wide", images(1, 4096, 3, 3), 32);
  all.emplace_back("one large image", images(1, 128, 64, 96), 32);
  all.emplace_back("many images", images(70, 64, 4, 4), 32);
  all.emplace_back("contiguous", images(2, 64, 9, 11).contiguous(), 32);
  all.emplace_back("a part", images(4, 64, 9, 40).slice(3, 3, 17, 2).slice(0, 1, 3), 32);
  all.emplace_back("transposed", images(2, 64, 9, 11).transpose(2, 3), 32);
  return all;
}

/// Output and gradients, in fp64 on the CPU.
using Results = TensorMap;

template <typename Operator>
Results run(Operator op, const Case& one, at::ScalarType type, at::ScalarType compute,
            at::ScalarType parameters, bool silu, c10::Device device) {
  const auto prepared = [&](const torch::Tensor& tensor, at::ScalarType as) {
    return tensor.to(type).to(as).to(device).detach();
  };
  const auto input = prepared(one.input, compute).requires_grad_();
  const auto weight = prepared(one.weight, parameters).requires_grad_();
  const auto bias = prepared(one.bias, parameters).requires_grad_();
  const auto output = op(input, weight, bias, one.groups, kEps, silu);
  EXPECT_EQ(output.scalar_type(), compute);
  output.backward(prepared(one.gradient, compute));
  const auto exact = [](const torch::Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  return {{"output", exact(output)},
          {"input's gradient", exact(input.grad())},
          {"weight's gradient", exact(weight.grad())},
          {"bias's gradient", exact(bias.grad())}};
}

double distance(const torch::Tensor& a, const torch::Tensor& b) {
  return (a - b).norm().item<double>();
}

/// Expects at most twice the error of the plain version in the same precision, and what rounding of
/// sums costs; for an input's gradient that is relative to its terms, which may cancel.
void expect_accurate(const Case& one, at::ScalarType type, at::ScalarType parameters, bool silu,
                     c10::Device device) {
  const auto exact =
      run(group_norm_silu_reference, one, type, at::kDouble, at::kDouble, silu, at::kCPU);
  const auto plain = run(group_norm_silu_reference, one, type, type, type, silu, device);
  const auto ours = run(group_norm_silu, one, type, type, parameters, silu, device);
  const auto deviations = one.input.to(at::kDouble)
                              .reshape({one.input.size(0), one.groups, -1})
                              .var(2, /*unbiased=*/false);
  const double largest =
      (deviations + kEps).rsqrt().max().item<double>() * one.weight.abs().max().item<double>();
  for (const auto& [part, expected] : exact) {
    double size = expected.norm().item<double>();
    if (part == "input's gradient") size += largest * one.gradient.norm().item<double>();
    EXPECT_LE(distance(ours.at(part), expected),
              2 * distance(plain.at(part), expected) + 1e-6 * size)
        << part << " of " << one.name << one.input.sizes() << " in " << type << ", parameters in "
        << parameters << (silu ? ", with SiLU" : "");
  }
}

void expect_accurate_on(c10::Device device) {
  for (const auto& one : cases()) {
    for (const bool silu : {true, false}) {
      expect_accurate(one, at::kFloat, at::kFloat, silu, device);
      expect_accurate(one, at::kBFloat16, at::kFloat, silu, device);
      expect_accurate(one, at::kBFloat16, at::kBFloat16, silu, device);
      expect_accurate(one, at::kHalf, at::kHalf, silu, device);
    }
  }
}

// Sums of squares in fp32 would leave no digit of these deviations.
void expect_digits_far_from_zero(c10::Device device) {
  torch::manual_seed(1);
  const double apart = 2000;  // means in standard deviations
  auto input = images(2, 64, 65, 64) + 2 * apart;
  input[0][0][0][0] = 0;  // and a first number that is no hint of the mean
  const Case one("far from zero", input, 32);
  const auto exact =
      run(group_norm_silu_reference, one, at::kFloat, at::kDouble, at::kDouble, true, at::kCPU);
  const auto ours = run(group_norm_silu, one, at::kFloat, at::kFloat, at::kFloat, true, device);
  for (const auto& [part, expected] : exact) {
    EXPECT_LE(distance(ours.at(part), expected), 4 * apart * 6e-8 * expected.norm().item<double>())
        << part;
  }
}

void expect_nan_stays(c10::Device device) {
  for (const int64_t side : {3, 40}) {
    auto input = images(3, 64, side, side);
    input[1][5][1][2] = NAN;
    const Case one("", input, 32);
    const auto results =
        run(group_norm_silu, one, at::kFloat, at::kFloat, at::kFloat, true, device);
    auto expected = at::zeros({3, 32}, at::kBool);
    expected[1][2] = true;
    for (const auto* part : {"output", "input's gradient"}) {
      const auto in_groups = results.at(part).isnan().reshape({3, 32, -1}).any(2);
      EXPECT_TRUE(at::equal(in_groups, expected)) << part;
    }
  }
}

void expect_nothing_from_nothing(c10::Device device) {
  const Case one("", at::empty({0, 64, 5, 5}), 32);
  const auto results = run(group_norm_silu, one, at::kFloat, at::kFloat, at::kFloat, true, device);
  EXPECT_EQ(results.at("output").sizes(), one.input.sizes());
  EXPECT_EQ(results.at("weight's gradient").abs().max().item<double>(), 0);
}

void expect_all_on(c10::Device device) {
  expect_accurate_on(device);
  expect_digits_far_from_zero(device);
  expect_nan_stays(device);
  expect_nothing_from_nothing(device);
}

TEST(GroupNormSilu, OnTheCpu) { expect_all_on(at::kCPU); }

TEST(GroupNormSilu, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_all_on(at::kCUDA);
}

// Enough pixels that a thread has several batches of them, and some over.
TEST(GroupNormSilu, ManyPixelsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(3);
  const Case one("many pixels", images(3, 128, 201, 203), 32);
  expect_accurate(one, at::kBFloat16, at::kFloat, true, at::kCUDA);
  expect_accurate(one, at::kFloat, at::kFloat, true, at::kCUDA);
}

TEST(GroupNormSilu, TheSameForAnyNumberOfThreads) {
  torch::manual_seed(2);
  for (const int64_t n : {1, 9}) {
    const Case one("", images(n, 24, 65, 33), 6);
    const auto with = [&](int threads) {
      const Threads at_work(threads);
      return run(group_norm_silu, one, at::kFloat, at::kFloat, at::kFloat, true, at::kCPU);
    };
    const auto expected = with(1);
    for (const int threads : {2, 5}) {
      for (const auto& [part, tensor] : with(threads)) {
        EXPECT_TRUE(at::equal(tensor, expected.at(part))) << part << ", " << threads;
      }
    }
  }
}

TEST(GroupNormSilu, OutputIsChannelsLast) {
  const auto parameter = at::ones({8});
  EXPECT_TRUE(group_norm_silu(at::randn({2, 8, 3, 5}), parameter, parameter, 4, kEps, true)
                  .is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(GroupNormSilu, RefusesWhatHasNoAnswer) {
  const auto x = at::randn({2, 8, 3, 5}), one = at::ones({8});
  EXPECT_THROW(group_norm_silu(x, one, one, 3, kEps, true), c10::Error);
  EXPECT_THROW(group_norm_silu(x, one, one, 0, kEps, true), c10::Error);
  EXPECT_THROW(group_norm_silu(x[0], one, one, 4, kEps, true), c10::Error);
  EXPECT_THROW(group_norm_silu(x, at::ones({4}), one, 4, kEps, true), c10::Error);
  EXPECT_THROW(group_norm_silu(x.to(at::kDouble), one, one, 4, kEps, true), c10::Error);
  EXPECT_THROW(group_norm_silu(x, one, one.to(at::kBFloat16), 4, kEps, true), c10::Error);
}

TEST(GroupNormSilu, RefusesASecondDerivative) {
  const auto x = at::randn({2, 8, 3, 5}).requires_grad_(), one = at::ones({8});
  const auto y = group_norm_silu(x, one, one, 4, kEps, true).sum();
  EXPECT_THROW(torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               c10::Error);
}

}  // namespace
}  // namespace nsvq::group_norm_silu_test
