#include "nsvq/train/steps/adam.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

torch::Tensor objective(const std::vector<torch::Tensor>& p) {
  return (p[0].pow(2) * 3 + p[0]).sum() + (p[1] - 2).abs().pow(1.5).sum() + p[2].sin().sum();
}

std::vector<torch::Tensor> parameters() {
  torch::manual_seed(0);
  return {at::randn({3, 4}).requires_grad_(), at::randn({33}).requires_grad_(),
          at::randn({2, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_()};
}

Adam::Parameters named(const std::vector<torch::Tensor>& p) {
  return {{"a", p[0]}, {"b", p[1]}, {"c", p[2]}};
}

/// 30 steps of ours and of torch's, whose gradients are clipped where the settings say so.
void expect_torchs_steps(const OptimizerConfig& config) {
  auto ours = parameters(), theirs = parameters();
  Adam adam(named(ours), config);
  torch::optim::Adam reference(
      theirs,
      torch::optim::AdamOptions(config.lr).betas({config.beta1, config.beta2}).eps(config.eps));
  for (int step = 0; step < 30; ++step) {
    adam.clear_gradients();
    objective(ours).backward();
    adam.step();
    reference.zero_grad();
    objective(theirs).backward();
    if (config.clip_norm > 0) torch::nn::utils::clip_grad_norm_(theirs, config.clip_norm);
    reference.step();
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 1e-5) << i;
  }
}

TEST(Adam, FollowsTorchsAdam) { expect_torchs_steps({.lr = 0.05}); }

TEST(Adam, ClipsByTheNormOfAllGradientsAsTorchDoes) {
  expect_torchs_steps({.lr = 0.05, .clip_norm = 2});
}

/// The first step with weight decay, by what `config` has beside it, next to one without.
std::vector<torch::Tensor> taken_by_decay(OptimizerConfig config) {
  const auto with = parameters(), without = parameters();
  config.lr = 0.05;
  Adam plain(named(without), config);
  config.weight_decay = 0.5;
  Adam decaying(named(with), config);
  objective(without).backward();
  plain.step();
  objective(with).backward();
  decaying.step();
  std::vector<torch::Tensor> taken;
  for (size_t i = 0; i < with.size(); ++i) taken.push_back((without[i] - with[i]).detach());
  return taken;
}

TEST(Adam, DecaysWhatItIsTold) {
  const auto expect = [](const OptimizerConfig& config, const std::vector<bool>& decayed) {
    const auto taken = taken_by_decay(config);
    const auto start = parameters();
    for (size_t i = 0; i < start.size(); ++i) {
      const auto expected = start[i].detach() * (decayed[i] ? 0.05 * 0.5 : 0);
      EXPECT_TRUE(at::allclose(taken[i], expected, 1e-4, 1e-6)) << i;
    }
  };
  expect({}, {true, true, true});
  expect({.decayed = "matrices"}, {true, false, true});
  expect({.undecayed = {"c", "b"}}, {true, false, false});
  expect({.decayed = "matrices", .undecayed = {"a"}}, {false, false, true});
}

TEST(Adam, NamesThatNoParameterHasAreRefused) {
  expect_contains(error_of([] {
                    Adam(named(parameters()), {.undecayed = {"a", "embed"}});
                  }),
                  {"optimizer.undecayed", "'embed'", "one is a"});
}

/// The first step of Adam moves a number by the rate, whatever its gradient.
TEST(Adam, MovesEachParameterAtItsOwnRate) {
  const auto p = parameters();
  const auto before = p[0].detach().clone(), other = p[1].detach().clone();
  Adam adam({{"a", p[0], 10}, {"b", p[1]}}, {.lr = 1e-3});
  adam.set_lr_factor(0.5);
  EXPECT_NEAR(adam.lr().item<double>(), 5e-4, 1e-9);
  objective(p).backward();
  adam.step();
  EXPECT_NEAR((p[0] - before).abs().max().item<double>(), 5e-3, 1e-6);
  EXPECT_NEAR((p[1] - other).abs().max().item<double>(), 5e-4, 1e-6);
}

// A gradient far below eps moves nothing; each parameter has its own eps, and clipping is by the
// norm of all gradients.
TEST(Adam, AParameterMayHaveItsOwnEps) {
  auto ours = parameters(), theirs = parameters();
  const auto small = [](const std::vector<torch::Tensor>& p) { return objective(p) * 1e-9; };
  const OptimizerConfig config = {.lr = 0.05, .eps = 1e-6, .clip_norm = 1e-9};
  Adam adam({{"a", ours[0]}, {"b", ours[1], 1, 1e-12}, {"c", ours[2]}}, config);
  const auto options = [&](double eps) {
    return std::make_unique<torch::optim::AdamOptions>(
        torch::optim::AdamOptions(config.lr).betas({config.beta1, config.beta2}).eps(eps));
  };
  using Group = torch::optim::OptimizerParamGroup;
  torch::optim::Adam reference(std::vector<Group>{Group({theirs[0], theirs[2]}, options(1e-6)),
                                                  Group({theirs[1]}, options(1e-12))});
  for (int step = 0; step < 10; ++step) {
    adam.clear_gradients();
    small(ours).backward();
    adam.step();
    reference.zero_grad();
    small(theirs).backward();
    double squares = 0;
    for (const auto& one : theirs) squares += one.grad().square().sum().item<double>();
    const double factor = std::min(1.0, config.clip_norm / (std::sqrt(squares) + 1e-6));
    for (const auto& one : theirs) one.mutable_grad().mul_(factor);
    reference.step();
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT((ours[i] - theirs[i]).abs().max().item<double>(), 1e-4) << i;
  }
  EXPECT_GT((ours[1] - parameters()[1]).abs().max().item<double>(), 0.1);
  EXPECT_LT((ours[0] - parameters()[0]).abs().max().item<double>(), 1e-2);
}

TEST(Adam, LeavesFrozenParametersAndTheirMomentsAlone) {
  const auto p = parameters();
  Adam adam(named(p), {});
  objective(p).backward();
  adam.step();
  p[0].set_requires_grad(false);
  const auto before = p[0].clone();
  const auto moment = adam.state().at("a.moment1").clone();
  adam.clear_gradients();
  objective(p).backward();
  adam.step();
  EXPECT_TRUE(at::equal(p[0], before));
  EXPECT_TRUE(at::equal(adam.state().at("a.moment1"), moment));
  EXPECT_EQ(adam.state().at("a.steps").item<float>(), 1);
  EXPECT_EQ(adam.state().at("b.steps").item<float>(), 2);
}

TEST(Adam, ForgetsOverwrittenRows) {
  const auto p = parameters();
  Adam adam(named(p), {});
  objective(p).backward();
  adam.step();
  adam.reset_rows(p[0], at::arange(p[0].size(0)).eq(1));
  const auto moment = adam.state().at("a.moment2");
  EXPECT_EQ(moment[1].abs().max().item<double>(), 0);
  EXPECT_GT(moment[0].abs().max().item<double>(), 0);
  EXPECT_GT(adam.state().at("b.moment1").abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace nsvq
