#include "nsvq/ops/soft_assignment/soft_assignment.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nsvq/core/device.h"
#include "nsvq/ops/soft_assignment/row_chunks.h"

namespace nsvq::soft_assignment_test {
namespace {

constexpr double kTau = 0.35;

struct Outcome {
  torch::Tensor usage, entropy, to_latents, to_codebook;
};

/// Statistics and the gradients of a weighted sum of them.
template <typename Call>
Outcome outcome(const torch::Tensor& latents, const torch::Tensor& codebook, const Call& call) {
  const auto z = latents.detach().requires_grad_(), c = codebook.detach().requires_grad_();
  const auto [usage, entropy] = call(z, c);
  const auto weights = at::linspace(-1, 2, codebook.size(0), codebook.options());
  const auto gradients = torch::autograd::grad({(usage * weights).sum() + 0.3 * entropy}, {z, c});
  return {usage.detach(), entropy.detach(), gradients[0], gradients[1]};
}

void expect_close(const Outcome& ours, const Outcome& plain, double tolerance) {
  const auto close = [&](const torch::Tensor& a, const torch::Tensor& b) {
    ASSERT_EQ(a.sizes(), b.sizes());
    EXPECT_TRUE(at::allclose(a, b, tolerance, tolerance)) << (a - b).abs().max();
  };
  close(ours.usage, plain.usage);
  close(ours.entropy, plain.entropy);
  close(ours.to_latents, plain.to_latents);
  close(ours.to_codebook, plain.to_codebook);
}

void expect_statistics_on(c10::Device device) {
  for (const auto type : {at::kDouble, at::kFloat}) {
    const auto options = at::device(device).dtype(type);
    for (const int64_t n : {0, 1, 31, 33, 200}) {
      for (const int64_t k : {1, 31, 33}) {
        SCOPED_TRACE(fmt::format("{} latents, {} codes", n, k));
        const auto z = at::randn({n, 5}, options) * 0.5, c = at::randn({k, 5}, options) * 0.5;
        const auto plain = outcome(z, c, [](const auto& a, const auto& b) {
          return soft_assignment_reference(a, b, kTau);
        });
        for (const int64_t chunk : {1, 7, 31, 32, 1000}) {
          const auto ours = outcome(z, c, [&](const auto& a, const auto& b) {
            return soft_assignment(a, b, kTau, chunk);
          });
          expect_close(ours, plain, type == at::kDouble ? 1e-12 : 2e-5);
        }
      }
    }
  }
}

TEST(SoftAssignment, EqualsThePlainVersion) {
  torch::manual_seed(0);
  expect_statistics_on(at::kCPU);
}

TEST(SoftAssignment, EqualsThePlainVersionOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(0);
  expect_statistics_on(at::kCUDA);
}

TEST(SoftAssignment, GradientsAreThoseOfFiniteDifferences) {
  torch::manual_seed(1);
  const auto z = at::randn({7, 3}, at::kDouble), c = at::randn({5, 3}, at::kDouble);
  const auto objective = [](const torch::Tensor& a, const torch::Tensor& b) {
    const auto [usage, entropy] = soft_assignment(a, b, kTau, 3);
    return (usage.square().sum() + entropy).item<double>();
  };
  const auto zl = z.clone().requires_grad_(), cl = c.clone().requires_grad_();
  const auto [usage, entropy] = soft_assignment(zl, cl, kTau, 3);
  (usage.square().sum() + entropy).backward();
  constexpr double step = 1e-6;
  const auto expect_gradient = [&](const torch::Tensor& moved, const torch::Tensor& gradient) {
    auto values = moved.view(-1);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const double middle = values[i].item<double>();
      values[i] = middle + step;
      const double above = objective(z, c);
      values[i] = middle - step;
      const double below = objective(z, c);
      values[i] = middle;
      EXPECT_NEAR(gradient.reshape(-1)[i].item<double>(), (above - below) / (2 * step), 1e-7);
    }
  };
  expect_gradient(z, zl.grad());
  expect_gradient(c, cl.grad());
}

TEST(SoftAssignment, AnyLayoutAndRepeatable) {
  torch::manual_seed(2);
  const auto z = at::randn({6, 40}), c = at::randn({20, 12}).slice(1, 0, 12, 2);
  const auto call = [](const auto& a, const auto& b) { return soft_assignment(a, b, kTau, 9); };
  const auto spread = outcome(z.t(), c, call);
  const auto dense = outcome(z.t().contiguous(), c.contiguous(), call);
  expect_close(spread, dense, 1e-5);
  const auto again = outcome(z.t(), c, call);
  EXPECT_TRUE(at::equal(spread.usage, again.usage));
  EXPECT_TRUE(at::equal(spread.to_latents, again.to_latents));
  EXPECT_TRUE(at::equal(spread.to_codebook, again.to_codebook));
}

TEST(SoftAssignment, OneHotAndFlatLimits) {
  const auto z = at::eye(4, at::kDouble), c = at::eye(4, at::kDouble);
  const auto sharp = soft_assignment(z, c, 1e-4);
  EXPECT_TRUE(at::allclose(sharp.usage, at::ones(4, at::kDouble)));
  EXPECT_NEAR(sharp.entropy.item<double>(), 0, 1e-9);
  const auto flat = soft_assignment(z, c, 1e9);
  EXPECT_NEAR(flat.entropy.item<double>(), 4 * std::log(4.0), 1e-6);
}

TEST(SoftAssignment, OperatorGivesTheUsage) {
  torch::manual_seed(3);
  const auto z = at::randn({50, 8}), c = at::randn({33, 8});
  const auto usage = soft_assignment(z, c, kTau).usage;
  EXPECT_TRUE(at::equal(softmax_column_sums(z, c, kTau), usage));
  const auto half = softmax_column_sums(z.to(at::kBFloat16), c.to(at::kBFloat16), kTau);
  EXPECT_EQ(half.scalar_type(), at::kFloat);
  EXPECT_NEAR(half.sum().item<double>(), 50, 1e-3);
  const auto shape = softmax_column_sums(z.to(at::kMeta), c.to(at::kMeta), kTau);
  EXPECT_EQ(shape.sizes(), usage.sizes());
  EXPECT_EQ(shape.scalar_type(), usage.scalar_type());
}

TEST(SoftAssignment, RefusesWhatDoesNotFit) {
  const auto z = at::zeros({3, 2});
  EXPECT_THROW(soft_assignment(z, at::zeros({4, 3}), kTau), c10::Error);
  EXPECT_THROW(soft_assignment(z, at::zeros({0, 2}), kTau), c10::Error);
  EXPECT_THROW(soft_assignment(z, at::zeros({4, 2}), 0), c10::Error);
  EXPECT_THROW(soft_assignment(z, at::zeros({4, 2}), kTau, 0), c10::Error);
}

/// Products of rows with a shared matrix, their indices, and their sum.
RowResults products(const torch::Tensor& rows, int64_t first,
                    const std::vector<torch::Tensor>& shared) {
  const auto product = rows.matmul(shared[0]).tanh() * shared[1];
  return {{product, at::arange(first, first + rows.size(0))}, {product.square().sum(0)}};
}

TEST(RowChunks, EveryKindOfResultAndInput) {
  torch::manual_seed(4);
  const auto rows = at::randn({11, 3}, at::kDouble).requires_grad_();
  const auto matrix = at::randn({3, 4}, at::kDouble).requires_grad_();
  const auto scale = at::randn({4}, at::kDouble);  // without a gradient
  const auto weight = at::randn({11, 4}, at::kDouble);
  const auto gradients = [&](const RowResults& results) {
    EXPECT_TRUE(at::equal(results.rows[1], at::arange(11)));
    EXPECT_FALSE(results.rows[1].requires_grad());
    return torch::autograd::grad({(results.rows[0] * weight).sum() + results.sums[0].sum()},
                                 {rows, matrix});
  };
  const auto plain = gradients(products(rows, 0, {matrix, scale}));
  for (const int64_t chunk : {1, 4, 11, 50}) {
    const auto ours = gradients(by_row_chunks(rows, {matrix, scale}, chunk, products));
    EXPECT_TRUE(at::allclose(ours[0], plain[0], 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(ours[1], plain[1], 1e-12, 1e-12));
  }
  // One result alone is used, and rows alone or the shared tensor alone want a gradient.
  const auto only = by_row_chunks(rows, {matrix.detach(), scale}, 4, products);
  const auto direct = products(rows, 0, {matrix.detach(), scale});
  const auto sums = [&](const RowResults& results) {
    return torch::autograd::grad({results.sums[0].sum()}, {rows})[0];
  };
  EXPECT_TRUE(at::allclose(sums(only), sums(direct), 1e-12, 1e-12));
  const auto fixed = by_row_chunks(rows.detach(), {matrix.detach(), scale}, 4, products);
  EXPECT_FALSE(fixed.rows[0].requires_grad());
}

TEST(RowChunks, HoldsAChunkAtATime) {
  int64_t most = 0, calls = 0;
  const auto results =
      by_row_chunks(at::ones({10, 2}).requires_grad_(), {}, 4,
                    [&](const torch::Tensor& rows, int64_t first, const auto&) -> RowResults {
                      EXPECT_EQ(first % 4, 0);
                      most = std::max(most, rows.size(0));
                      ++calls;
                      return {{rows * 2}, {}};
                    });
  EXPECT_EQ(calls, 3);
  results.rows[0].sum().backward();
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(most, 4);
  EXPECT_EQ(rows_at_a_time(65536), 512);
  EXPECT_EQ(rows_at_a_time(int64_t{1} << 30), 1);
}

}  // namespace
}  // namespace nsvq::soft_assignment_test
