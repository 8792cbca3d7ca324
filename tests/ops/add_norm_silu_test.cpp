#include "nsvq/ops/group_norm/add_norm_silu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include <map>

#include "nsvq/core/device.h"
#include "tests/ops/norm_images.h"

namespace nsvq::add_norm_silu_test {
namespace {

using torch::Tensor;

constexpr double kEps = 1e-6;

/// Inputs in fp32; `b` may be undefined.
struct Case {
  std::string name;
  Tensor a, b;
  int64_t groups;
  Tensor weight, bias, sum_gradient, output_gradient;

  Case(std::string name, Tensor a, Tensor b, int64_t groups)
      : name(std::move(name)),
        a(std::move(a)),
        b(std::move(b)),
        groups(groups),
        weight(at::randn({this->a.size(1)}) + 1),
        bias(at::randn({this->a.size(1)})),
        sum_gradient(at::randn_like(this->a)),
        output_gradient(at::randn_like(this->a)) {}
};

Tensor part(int64_t n, int64_t c) {
  return norm_images(n + 2, c, 9, 40).slice(3, 3, 17, 2).slice(0, 1, n + 1);
}

/// Cases: the networks' channels, sizes around vectors and splits, groups of four, layouts.
std::vector<Case> cases() {
  torch::manual_seed(0);
  std::vector<Case> all;
  struct Size {
    int64_t images, channels, height, width, groups;
  };
  for (const auto& [n, c, h, w, groups] : {Size{2, 64, 31, 33, 32},
                                           {1, 128, 16, 16, 32},
                                           {1, 256, 7, 5, 32},
                                           {3, 512, 3, 8, 32},
                                           {2, 24, 9, 11, 6},
                                           {2, 128, 1, 3, 32},
                                           {1, 30, 5, 31, 10},
                                           {1, 7, 33, 1, 7},
                                           {1, 4096, 3, 3, 32},
                                           {70, 64, 4, 4, 32},
                                           {1, 128, 65, 96, 32},
                                           {2, 768, 16, 16, 32},
                                           {3, 1536, 8, 8, 32}}) {
    all.emplace_back("two", norm_images(n, c, h, w), norm_images(n, c, h, w), groups);
    all.emplace_back("one", norm_images(n, c, h, w), Tensor(), groups);
  }
  all.emplace_back("contiguous", norm_images(2, 64, 9, 11).contiguous(), norm_images(2, 64, 9, 11),
                   32);
  all.emplace_back("parts", part(2, 64), part(2, 64), 32);
  all.emplace_back("a part", part(1, 128), Tensor(), 32);
  return all;
}

enum class Use { both, sum, output };

/// Sum, output and gradients, in fp64 on the CPU; undefined gradients are left out.
using Results = std::map<std::string, Tensor>;

struct Precision {
  at::ScalarType values, compute, parameters;
};

template <typename Operator>
Results run(Operator op, const Case& one, const Precision& precision, bool silu, c10::Device device,
            Use use = Use::both) {
  const auto prepared = [&](const Tensor& tensor, at::ScalarType type) {
    return tensor.defined() ? tensor.to(precision.values).to(type).to(device).detach() : tensor;
  };
  std::map<std::string, Tensor> leaves = {{"a", prepared(one.a, precision.compute)},
                                          {"b", prepared(one.b, precision.compute)},
                                          {"weight", prepared(one.weight, precision.parameters)},
                                          {"bias", prepared(one.bias, precision.parameters)}};
  for (auto& [name, leaf] : leaves) {
    if (leaf.defined()) leaf.requires_grad_();
  }
  const auto [sum, output] =
      op(leaves["a"], leaves["b"], leaves["weight"], leaves["bias"], one.groups, kEps, silu);
  std::vector<Tensor> ends, gradients;
  if (use != Use::output) ends.push_back(sum);
  if (use != Use::output) gradients.push_back(prepared(one.sum_gradient, precision.compute));
  if (use != Use::sum) ends.push_back(output);
  if (use != Use::sum) gradients.push_back(prepared(one.output_gradient, precision.compute));
  torch::autograd::backward(ends, gradients);
  const auto exact = [](const Tensor& t) { return t.detach().cpu().to(at::kDouble); };
  Results results = {{"sum", exact(sum)}, {"output", exact(output)}};
  for (const auto& [name, leaf] : leaves) {
    if (leaf.defined() && leaf.grad().defined()) results[name + "'s gradient"] = exact(leaf.grad());
  }
  return results;
}

constexpr Precision kExactly{at::kFloat, at::kDouble, at::kDouble};

double distance(const Tensor& a, const Tensor& b) { return (a - b).norm().item<double>(); }

/// Expects at most twice the error of the plain version in the same precision, and what rounding of
/// sums costs; for an input's gradient that is relative to its terms, which may cancel.
void expect_accurate(const Case& one, const Precision& precision, bool silu, c10::Device device) {
  const auto type = precision.values;
  const auto exact =
      run(add_norm_silu_reference, one, {type, at::kDouble, at::kDouble}, silu, at::kCPU);
  const auto plain = run(add_norm_silu_reference, one, {type, type, type}, silu, device);
  const auto ours = run(add_norm_silu, one, precision, silu, device);
  const auto label = fmt::format("{}, {} channels, {}{}", one.name, one.a.size(1),
                                 c10::toString(type), silu ? ", with SiLU" : "");
  EXPECT_EQ(ours.size(), exact.size()) << label;
  EXPECT_TRUE(at::equal(ours.at("sum"), plain.at("sum"))) << label;
  const auto sum = exact.at("sum").reshape({one.a.size(0), one.groups, -1});
  const double largest = (sum.var(2, /*unbiased=*/false) + kEps).rsqrt().max().item<double>() *
                         one.weight.abs().max().item<double>();
  for (const auto& [name, expected] : exact) {
    double size = expected.norm().item<double>();
    const bool of_input = name == "a's gradient" || name == "b's gradient";
    if (of_input) size += largest * one.output_gradient.norm().item<double>();
    EXPECT_LE(distance(ours.at(name), expected),
              2 * distance(plain.at(name), expected) + 1e-6 * size)
        << name << " of " << label << one.a.sizes();
  }
}

void expect_accurate_on(c10::Device device) {
  for (const auto& one : cases()) {
    for (const bool silu : {true, false}) {
      expect_accurate(one, {at::kFloat, at::kFloat, at::kFloat}, silu, device);
      expect_accurate(one, {at::kBFloat16, at::kBFloat16, at::kFloat}, silu, device);
      expect_accurate(one, {at::kHalf, at::kHalf, at::kHalf}, silu, device);
    }
  }
}

// Results that are not used give no gradients.
void expect_partial_use_on(c10::Device device) {
  torch::manual_seed(1);
  for (const bool two : {true, false}) {
    const Case one("", norm_images(2, 64, 5, 7), two ? norm_images(2, 64, 5, 7) : Tensor(), 32);
    for (const auto use : {Use::sum, Use::output}) {
      const auto exact = run(add_norm_silu_reference, one, kExactly, true, at::kCPU, use);
      const auto ours =
          run(add_norm_silu, one, {at::kFloat, at::kFloat, at::kFloat}, true, device, use);
      ASSERT_EQ(ours.size(), exact.size());
      for (const auto& [name, expected] : exact) {
        EXPECT_TRUE(at::allclose(ours.at(name), expected, 1e-4, 1e-5)) << name;
      }
    }
  }
}

void expect_nothing_from_nothing(c10::Device device) {
  const Case one("", norm_images(0, 64, 5, 5), norm_images(0, 64, 5, 5), 32);
  const auto results = run(add_norm_silu, one, {at::kFloat, at::kFloat, at::kFloat}, true, device);
  EXPECT_EQ(results.at("sum").sizes(), one.a.sizes());
  EXPECT_EQ(results.at("output").sizes(), one.a.sizes());
  EXPECT_EQ(results.at("weight's gradient").abs().max().item<double>(), 0);
}

TEST(AddNormSilu, OnTheCpu) {
  expect_accurate_on(at::kCPU);
  expect_partial_use_on(at::kCPU);
  expect_nothing_from_nothing(at::kCPU);
}

TEST(AddNormSilu, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_accurate_on(at::kCUDA);
  expect_partial_use_on(at::kCUDA);
  expect_nothing_from_nothing(at::kCUDA);
}

// Enough pixels that a thread has several batches of them, and some over.
TEST(AddNormSilu, ManyPixelsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(3);
  const Case one("many pixels", norm_images(3, 128, 201, 203), norm_images(3, 128, 201, 203), 32);
  expect_accurate(one, {at::kBFloat16, at::kBFloat16, at::kFloat}, true, at::kCUDA);
  expect_accurate(one, {at::kFloat, at::kFloat, at::kFloat}, true, at::kCUDA);
}

TEST(AddNormSilu, OneInputIsTheSumWithoutACopy) {
  const auto a = norm_images(2, 8, 3, 5), weight = at::ones({8}), bias = at::zeros({8});
  for (const bool wanted : {true, false}) {
    const auto x = (a * 2).detach().requires_grad_(wanted);
    const auto [sum, output] = add_norm_silu(x, {}, weight, bias, 4, kEps, true);
    EXPECT_EQ(sum.const_data_ptr(), x.const_data_ptr());
    EXPECT_EQ(sum.requires_grad(), wanted);
    EXPECT_EQ(output.requires_grad(), wanted);
  }
}

// A chain as in a network: each sum goes into the next norm and the next sum.
TEST(AddNormSilu, ChainsHaveThePlainGradients) {
  torch::manual_seed(2);
  const auto weight = at::randn({8}), bias = at::randn({8}), start = norm_images(2, 8, 3, 5);
  const auto gradient = [&](auto op) {
    const auto leaf = start.clone().requires_grad_();
    SumAndNorm state{leaf * 1, {}};
    for (int i = 0; i < 3; ++i) {
      state = op(state.sum, state.output, weight, bias, 4, kEps, true);
    }
    (state.sum * state.output).sum().backward();
    return leaf.grad();
  };
  EXPECT_TRUE(at::allclose(gradient(add_norm_silu), gradient(add_norm_silu_reference), 1e-4, 1e-5));
}

TEST(AddNormSilu, RefusesWhatHasNoAnswer) {
  const auto x = at::randn({2, 8, 3, 5}), one = at::ones({8});
  EXPECT_THROW(add_norm_silu(x, x[0], one, one, 4, kEps, true), c10::Error);
  EXPECT_THROW(add_norm_silu(x, x.to(at::kHalf), one, one, 4, kEps, true), c10::Error);
  EXPECT_THROW(add_norm_silu(x, x, one, one, 3, kEps, true), c10::Error);
  const auto leaf = x.clone().requires_grad_();
  const auto y = add_norm_silu(leaf, x, one, one, 4, kEps, true).output.sum();
  EXPECT_THROW(torch::autograd::grad({y}, {leaf}, {}, /*retain_graph=*/true, /*create_graph=*/true),
               c10::Error);
}

}  // namespace
}  // namespace nsvq::add_norm_silu_test
