#include "nsvq/nn/autoencoder.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/layers.h"

namespace nsvq {
namespace {

TEST(Layers, NormGroupsDivideTheChannels) {
  const auto groups = [](int64_t channels) { return make_norm(channels)->options.num_groups(); };
  EXPECT_EQ(groups(128), 32);
  EXPECT_EQ(groups(32), 32);
  EXPECT_EQ(groups(24), 6);
  EXPECT_EQ(groups(48), 12);
  EXPECT_EQ(groups(31), 1);
  EXPECT_EQ(groups(37), 1);
  EXPECT_EQ(groups(12), 3);
  EXPECT_EQ(groups(1), 1);
  EXPECT_EQ(make_norm(64)->options.eps(), 1e-6);
}

TEST(Layers, NormIsTheSameInAnyMemoryOrder) {
  torch::manual_seed(0);
  const auto norm = make_norm(64);
  const auto x = at::randn({2, 64, 5, 7}) * 3 + 1;
  for (const auto activation : {Activation::none, Activation::silu}) {
    const auto a = normalise(*norm, x, activation);
    const auto b = normalise(*norm, x.contiguous(at::MemoryFormat::ChannelsLast), activation);
    EXPECT_TRUE(a.is_contiguous());
    EXPECT_TRUE(b.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(at::allclose(a, b, 1e-5, 1e-6));
  }
}

TEST(Layers, WhatIsToBeAddedIsAddedByTheNorm) {
  torch::manual_seed(0);
  const auto norm = make_norm(64);
  const auto x = at::randn({2, 64, 5, 7}), h = at::randn({2, 64, 5, 7});
  const auto cl = [](const torch::Tensor& t) {
    return t.contiguous(at::MemoryFormat::ChannelsLast);
  };
  for (const auto activation : {Activation::none, Activation::silu}) {
    const auto expected = normalise(*norm, x + h, activation);
    for (const auto& residual :
         {Residual{x, h}, {x + h, {}}, {cl(x), cl(h)}, {cl(x), h}, {x, cl(h)}, {cl(x + h), {}}}) {
      const auto found = add_and_normalise(*norm, residual, activation);
      EXPECT_TRUE(at::equal(found.sum, x + h));
      EXPECT_TRUE(at::allclose(found.output, expected, 1e-5, 1e-6));
    }
  }
  // The sum of two types is what PyTorch makes of them.
  const auto mixed = Residual{cl(x), cl(h).to(at::kBFloat16)};
  EXPECT_TRUE(at::equal(add_and_normalise(*norm, mixed, Activation::silu).sum, mixed.sum()));
}

/// Compares the gradient of a random projection of `module`'s output with central differences along
/// a random direction, for the input and each parameter.
template <typename Module>
void check_gradients(Module& module, torch::Tensor x) {
  module.to(torch::kDouble);
  x = x.to(torch::kDouble).requires_grad_();
  torch::Tensor weights;
  const auto loss = [&] {
    const auto y = module.forward({x, {}}).sum();
    if (!weights.defined()) weights = torch::randn_like(y);
    return (y * weights).sum();
  };
  loss().backward();

  auto inputs = module.parameters();
  inputs.push_back(x);
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto direction = torch::randn_like(inputs[i]);
    const double step = 1e-6;
    inputs[i].add_(direction, step);
    const double above = loss().template item<double>();
    inputs[i].add_(direction, -2 * step);
    const double below = loss().template item<double>();
    inputs[i].add_(direction, step);
    const double expected = (above - below) / (2 * step);
    const double actual = (inputs[i].grad() * direction).sum().template item<double>();
    EXPECT_NEAR(actual, expected, 1e-7 * (1 + std::abs(expected))) << "input " << i;
  }
}

TEST(Blocks, ResBlockGradientsMatchDifferences) {
  torch::manual_seed(1);
  ResBlockImpl same(6, 6), wider(6, 9);
  check_gradients(same, torch::randn({2, 6, 3, 5}));
  check_gradients(wider, torch::randn({1, 6, 1, 4}));
}

TEST(Blocks, AttentionGradientsMatchDifferences) {
  torch::manual_seed(2);
  AttentionImpl attention(6), single(4);
  check_gradients(attention, torch::randn({2, 6, 3, 5}));
  check_gradients(single, torch::randn({1, 4, 1, 1}));
}

TEST(Blocks, AttentionMixesWithinAnImageOnly) {
  torch::manual_seed(3);
  const torch::NoGradGuard no_grad;
  AttentionImpl attention(8);
  const auto x = torch::randn({2, 8, 3, 3});
  auto changed = x.clone();
  changed[1] += 1 + torch::randn({8, 3, 3});
  const auto before = attention.forward({x, {}}).sum();
  const auto after = attention.forward({changed, {}}).sum();
  EXPECT_TRUE(torch::equal(before[0], after[0]));
  EXPECT_FALSE(torch::allclose(before[1], after[1]));
}

/// What levels and the middle make of an image, and the gradients of all inputs.
struct Pass {
  LevelImpl level{
      {.inputs = 32, .outputs = 64, .blocks = 2, .attention = true, .resample = Resample::down}};
  MidImpl mid{64, /*attention=*/true};
  LevelImpl up{
      {.inputs = 64, .outputs = 32, .blocks = 1, .attention = false, .resample = Resample::up}};

  std::vector<torch::nn::Module*> modules() { return {&level, &mid, &up}; }

  std::vector<torch::Tensor> results(const torch::Tensor& image) {
    std::vector<torch::Tensor> inputs = {image.detach().requires_grad_()};
    for (const auto* module : modules()) {
      for (const auto& parameter : module->parameters()) inputs.push_back(parameter);
    }
    const auto y = up.forward(mid.forward(level.forward({inputs.front(), {}}))).sum();
    auto results = torch::autograd::grad({(y * y).sum()}, inputs);
    results.push_back(y.detach());
    return results;
  }
};

// Channels-last in fp32, where norms add residuals and others biases, against plain fp64.
void expect_plain_results_on(c10::Device device) {
  torch::manual_seed(4);
  Pass pass;
  const auto image = at::randn({2, 32, 7, 9}, device);
  for (auto* module : pass.modules()) {
    module->to(device);
    make_channels_last(*module);
  }
  const auto fast = pass.results(image.contiguous(at::MemoryFormat::ChannelsLast));
  for (auto* module : pass.modules()) module->to(at::kDouble);
  const auto exact = pass.results(image.to(at::kDouble));
  ASSERT_EQ(fast.size(), exact.size());
  for (size_t i = 0; i < fast.size(); ++i) {
    EXPECT_LE((fast[i] - exact[i]).norm().item<double>(),
              1e-4 * (1 + exact[i].norm().item<double>()))
        << "result " << i;
  }
}

TEST(Blocks, GiveTheResultsOfPlainSums) { expect_plain_results_on(at::kCPU); }

TEST(Blocks, GiveTheResultsOfPlainSumsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard exact(Tf32Work::convolutions, false);
  expect_plain_results_on(at::kCUDA);
}

/// Inference on a GPU, where sums, biases and first convolutions take no pass of their own.
TEST(AutoencoderOnTheGpu, InferenceAgreesWithTraining) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  torch::manual_seed(0);
  for (const std::string family : {"taming", "nsvq"}) {
    const ModelConfig config{
        .family = family, .width = 32, .multipliers = {1, 2, 2}, .latent_dim = 8};
    Encoder encoder(config);
    Decoder decoder(config);
    for (torch::nn::Module* module : {static_cast<torch::nn::Module*>(encoder.get()),
                                      static_cast<torch::nn::Module*>(decoder.get())}) {
      module->to(at::kCUDA);
      use_gpu_layout(*module);
    }
    const auto images = at::rand({3, 3, 40, 24}).to(at::kCUDA) * 2 - 1;
    for (const auto precision : {Precision::fp32, Precision::bf16}) {
      const AutocastGuard autocast(precision, at::kCUDA);
      const auto latents = encoder->forward(images), decoded = decoder->forward(latents);
      const torch::NoGradGuard no_grad;
      const double tolerance = precision == Precision::fp32 ? 1e-2 : 5e-2;
      const auto expect_near = [&](const torch::Tensor& a, const torch::Tensor& b) {
        const auto scale = b.to(at::kFloat).norm().item<double>();
        EXPECT_LE((a.to(at::kFloat) - b.to(at::kFloat)).norm().item<double>(), tolerance * scale)
            << family;
      };
      expect_near(encoder->forward(images), latents);
      expect_near(decoder->forward(latents), decoded);
    }
  }
}

}  // namespace
}  // namespace nsvq
