#include "nsvq/ops/transformer/turn_heads.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "nsvq/core/device.h"
#include "nsvq/ops/transformer/swiglu.h"

namespace nsvq::turn_heads_test {
namespace {

using torch::Tensor;

Tensor wide(const Tensor& x) { return x.detach().cpu().to(at::kDouble); }

/// Within what one rounding to bf16 costs each number.
void expect_rounded(const Tensor& found, const Tensor& exact, const char* name) {
  EXPECT_EQ(found.scalar_type(), at::kBFloat16) << name;
  ASSERT_EQ(found.sizes(), exact.sizes()) << name;
  const auto error = (wide(found) - exact).abs();
  EXPECT_TRUE(error.le(exact.abs() * 0x1p-8 + 1e-5).all().item<bool>())
      << name << ": " << error.max().item<double>();
}

void expect_turned_on(c10::Device device, int64_t images, int64_t tokens, int64_t heads,
                      int64_t channels) {
  SCOPED_TRACE(fmt::format("{} x {} x {} x {}", images, tokens, heads, channels));
  const auto given = at::randn({images, tokens, 3, heads, channels}).to(at::kBFloat16);
  const auto rotation =
      at::polar(at::ones({tokens, channels / 2}), at::randn({tokens, channels / 2}));
  // Gradients in two orders in memory: as attention may return them.
  const Tensor gradients[] = {
      at::randn({images, heads, tokens, channels}).to(at::kBFloat16),
      at::randn({images, tokens, heads, channels}).to(at::kBFloat16).transpose(1, 2),
      at::randn({images, heads, tokens, channels}).to(at::kBFloat16)};
  const auto run = [&](const auto& op, bool exact) {
    const auto leaf =
        (exact ? given.to(at::kDouble) : given.to(device)).detach().clone().requires_grad_();
    const auto turns = exact ? rotation.to(at::kComplexDouble) : rotation.to(device);
    const auto heads_of = op(leaf * 1, turns);  // no leaf is written over
    const Tensor results[] = {heads_of.query, heads_of.key, heads_of.value};
    Tensor total;
    for (int i = 0; i < 3; ++i) {
      const auto part = (results[i] * gradients[i].to(results[i].options())).sum();
      total = total.defined() ? total + part : part;
    }
    total.backward();
    return std::vector<Tensor>{results[0], results[1], results[2], leaf.grad()};
  };
  const auto exact = run(turn_heads_reference, true), ours = run(turn_heads, false);
  const char* names[] = {"query", "key", "value", "gradient"};
  for (size_t i = 0; i < 4; ++i) expect_rounded(ours[i], wide(exact[i]), names[i]);
}

void expect_all_turned_on(c10::Device device) {
  torch::manual_seed(0);
  expect_turned_on(device, 1, 1, 1, 8);
  expect_turned_on(device, 3, 7, 5, 24);
  expect_turned_on(device, 2, 33, 12, 64);
  expect_turned_on(device, 2, 256, 3, 128);
}

TEST(TurnHeads, OnTheCpu) { expect_all_turned_on(at::kCPU); }

TEST(TurnHeads, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_all_turned_on(at::kCUDA);
}

TEST(TurnHeads, RefusesOtherShapes) {
  const auto turns = at::polar(at::ones({3, 4}), at::ones({3, 4}));
  EXPECT_THROW(turn_heads(at::zeros({2, 3, 2, 1, 8}), turns), c10::Error);
  EXPECT_THROW(turn_heads(at::zeros({2, 4, 3, 1, 8}), turns), c10::Error);
  EXPECT_THROW(turn_heads(at::zeros({2, 3, 3, 1, 16}), turns), c10::Error);
}

void expect_gated_on(c10::Device device) {
  torch::manual_seed(1);
  for (const int64_t count : {0, 8, 2040, 2048, 2056, 100000}) {
    const auto draw = [&](double size) { return (at::randn({count}) * size).to(at::kBFloat16); };
    const auto a = draw(4), b = draw(1), gradient = draw(1);
    const auto x = a.to(at::kDouble).requires_grad_(), y = b.to(at::kDouble).requires_grad_();
    const auto exact = at::silu(x) * y;
    (exact * gradient.to(at::kDouble)).sum().backward();
    expect_rounded(swiglu(a.to(device), b.to(device)), exact.detach(), "product");
    const auto own = gradient.to(device).clone();
    const auto [of_a, of_b] = swiglu_backward(own, a.to(device), b.to(device));
    expect_rounded(own, exact.detach(), "product again");
    expect_rounded(of_a, x.grad(), "a's gradient");
    expect_rounded(of_b, y.grad(), "b's gradient");
  }
}

TEST(Swiglu, OnTheCpu) { expect_gated_on(at::kCPU); }

TEST(Swiglu, OnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_gated_on(at::kCUDA);
}

}  // namespace
}  // namespace nsvq::turn_heads_test
