#include "nsvq/nn/discriminator.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "tests/two_ranks.h"

namespace nsvq {
namespace {

using Norm = torch::nn::BatchNorm2dImpl;

std::shared_ptr<Norm> make_norm() {
  auto norm = std::make_shared<Norm>(4);
  const torch::NoGradGuard no_grad;
  norm->weight.copy_(at::tensor({0.5, 1.0, -2.0, 3.0}));
  norm->bias.copy_(at::tensor({0.0, 1.0, 2.0, -1.0}));
  return norm;
}

/// Five images, whose channels lie far from zero in different ways.
torch::Tensor norm_images(at::ScalarType type) {
  const auto numbers = at::arange(5 * 4 * 3 * 2, at::kDouble).mul(1.7).sin();
  const auto shifts = at::tensor({0.0, 30.0, -5.0, 100.0}).to(at::kDouble).view({1, 4, 1, 1});
  return (numbers.view({5, 4, 3, 2}) + shifts).to(type);
}

torch::Tensor norm_loss(const torch::Tensor& images) {
  return (images.to(at::kDouble) * at::arange(images[0].numel()).view_as(images[0])).square().sum();
}

TEST(SyncBatchNorm, IsTheNormOfAllRanksImages) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(type));
    const auto whole = make_norm();
    if (type == at::kDouble) whole->to(at::kDouble);
    const auto images = norm_images(type);
    const auto leaf = images.clone().requires_grad_();
    const auto expected = whole->forward(leaf);
    norm_loss(expected).backward();
    const double tolerance = type == at::kDouble ? 1e-9 : type == at::kFloat ? 2e-4 : 2e-2;
    std::array<torch::Tensor, 2> of_weight, of_bias;
    on_two_ranks([&](int rank, Group& both) {
      const auto norm = make_norm();
      if (type == at::kDouble) norm->to(at::kDouble);
      const int64_t first = rank * 3, count = rank == 0 ? 3 : 2;  // not even equally many
      const auto own = images.narrow(0, first, count).clone().requires_grad_();
      const auto made =
          sync_batch_norm(own, *norm, [&](const auto& tensor) { both.sum({tensor}); });
      norm_loss(made).backward();
      const auto close = [&](const torch::Tensor& one, const torch::Tensor& other) {
        const auto scale = other.abs().max().item<double>();
        return at::allclose(one.to(at::kDouble), other.to(at::kDouble), tolerance,
                            tolerance * scale);
      };
      EXPECT_EQ(made.scalar_type(), type);
      EXPECT_TRUE(close(made, expected.narrow(0, first, count)));
      EXPECT_TRUE(close(own.grad(), leaf.grad().narrow(0, first, count)))
          << own.grad() << leaf.grad();
      EXPECT_TRUE(close(norm->running_mean, whole->running_mean));
      EXPECT_TRUE(close(norm->running_var, whole->running_var));
      EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
      of_weight[rank] = norm->weight.grad();
      of_bias[rank] = norm->bias.grad();
    });
    const auto limit = tolerance * whole->weight.grad().abs().max().item<double>();
    EXPECT_TRUE(at::allclose(of_weight[0] + of_weight[1], whole->weight.grad(), tolerance, limit));
    EXPECT_TRUE(at::allclose(of_bias[0] + of_bias[1], whole->bias.grad(), tolerance, limit));
  }
}

}  // namespace
}  // namespace nsvq
