#include "nsvq/nn/autoencoder.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"

namespace nsvq {
namespace {

ModelConfig small() {
  ModelConfig config;
  config.width = 24;
  config.multipliers = {1, 2, 2};
  config.blocks = 1;
  config.latent_dim = 6;
  return config;
}

TEST(Autoencoder, DefaultHasTheParametersOfThePaper) {
  EXPECT_EQ(parameter_count(*Encoder(ModelConfig{})), 24282496);
  EXPECT_EQ(parameter_count(*Decoder(ModelConfig{})), 39851907);
}

TEST(Autoencoder, ParametersHaveTheNamesOfTaming) {
  auto config = small();
  config.attention = {1};
  config.mid_attention = true;
  const auto encoder = Encoder(config)->named_parameters();
  for (const char* name :
       {"conv_in.weight", "down.0.block.0.norm1.weight", "down.0.block.0.conv1.weight",
        "down.1.block.0.nin_shortcut.weight", "down.1.attn.0.q.bias",
        "down.1.attn.0.proj_out.weight", "down.1.downsample.bias", "mid.block_1.norm2.bias",
        "mid.attn_1.norm.weight", "mid.block_2.conv2.weight", "norm_out.weight", "conv_out.bias"}) {
    EXPECT_TRUE(encoder.contains(name)) << name;
  }
  for (const char* name : {"conv_in.bias", "down.0.block.0.conv1.bias", "down.2.downsample.weight",
                           "down.0.attn.0.q.weight", "down.0.block.0.nin_shortcut.weight"}) {
    EXPECT_FALSE(encoder.contains(name)) << name;
  }
  const auto decoder = Decoder(config)->named_parameters();
  EXPECT_TRUE(decoder.contains("up.1.upsample.bias"));
  EXPECT_TRUE(decoder.contains("up.1.attn.0.v.weight"));
  EXPECT_TRUE(decoder.contains("up.0.block.0.nin_shortcut.weight"));
  EXPECT_FALSE(decoder.contains("up.0.upsample.weight"));
}

TEST(Autoencoder, ShapesFollowTheStride) {
  const torch::NoGradGuard no_grad;
  Encoder encoder(small());
  Decoder decoder(small());
  for (const auto& [b, h, w] :
       {std::tuple{1, 4, 4}, std::tuple{2, 124, 4}, std::tuple{3, 12, 132}, std::tuple{0, 8, 8}}) {
    const auto latents = encoder->forward(torch::rand({b, 3, h, w}));
    EXPECT_EQ(latents.sizes(), (torch::IntArrayRef{b, 6, h / 4, w / 4}));
    EXPECT_EQ(decoder->forward(latents).sizes(), (torch::IntArrayRef{b, 3, h, w}));
  }
}

TEST(Autoencoder, RefusesSizesThatTheStrideDoesNotDivide) {
  Encoder encoder(small());
  try {
    encoder->forward(torch::zeros({1, 3, 32, 31}));
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    EXPECT_NE(text.find("32x31"), std::string::npos) << text;
    EXPECT_NE(text.find("stride, which is 4"), std::string::npos) << text;
  }
  EXPECT_THROW(encoder->forward(torch::zeros({1, 1, 32, 32})), c10::Error);
  EXPECT_THROW(encoder->forward(torch::zeros({1, 3, 0, 32})), c10::Error);
  EXPECT_THROW(encoder->forward(torch::zeros({3, 32, 32})), c10::Error);
  EXPECT_THROW(Decoder(small())->forward(torch::zeros({1, 5, 8, 8})), c10::Error);
}

TEST(Autoencoder, RefusesOptionsThatNoModelCanHave) {
  const auto refuses = [](auto change) {
    auto config = small();
    change(config);
    EXPECT_THROW(Encoder{config}, UserError);
    EXPECT_THROW(Decoder{config}, UserError);
  };
  refuses([](ModelConfig& c) { c.attention = {3}; });
  refuses([](ModelConfig& c) { c.attention = {-1}; });
  refuses([](ModelConfig& c) { c.multipliers = {}; });
  refuses([](ModelConfig& c) { c.multipliers = {1, 0}; });
  refuses([](ModelConfig& c) { c.width = 0; });
  refuses([](ModelConfig& c) { c.blocks = 0; });
  refuses([](ModelConfig& c) { c.latent_dim = 0; });
}

TEST(Autoencoder, KeepsChannelsLast) {
  const torch::NoGradGuard no_grad;
  auto config = small();
  config.mid_attention = true;
  Encoder encoder(config);
  Decoder decoder(config);
  const auto images = torch::rand({2, 3, 16, 24}).contiguous(torch::MemoryFormat::ChannelsLast);
  const auto latents = encoder->forward(images);
  EXPECT_TRUE(latents.is_contiguous(torch::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(decoder->forward(latents).is_contiguous(torch::MemoryFormat::ChannelsLast));
}

TEST(Autoencoder, GivesTheSameBitsTwice) {
  auto config = small();
  config.attention = {2};
  Encoder encoder(config);
  Decoder decoder(config);
  const auto images = torch::rand({2, 3, 16, 24});
  const auto once = [&] {
    encoder->zero_grad();
    decoder->zero_grad();
    const auto output = decoder->forward(encoder->forward(images));
    output.square().sum().backward();
    std::vector<torch::Tensor> result{output.detach()};
    for (const auto& p : encoder->parameters()) result.push_back(p.grad().clone());
    for (const auto& p : decoder->parameters()) result.push_back(p.grad().clone());
    return result;
  };
  const auto first = once(), second = once();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], second[i])) << i;
}

TEST(Autoencoder, SeedFixesTheInitialParameters) {
  torch::manual_seed(7);
  Encoder a(small());
  torch::manual_seed(7);
  Encoder b(small());
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), b->named_parameters()[item.key()])) << item.key();
  }
  // torch's default for a convolution is uniform within 1 / sqrt(fan in).
  const auto weight = a->named_parameters()["conv_in.weight"].abs().max().item<double>();
  EXPECT_LE(weight, 1 / std::sqrt(27.0));
  EXPECT_GT(weight, 0.9 / std::sqrt(27.0));
}

TEST(Autoencoder, RecomputedActivationsGiveTheSameGradients) {
  torch::manual_seed(0);
  ModelConfig options;
  options.width = 8;
  options.multipliers = {1, 2};
  options.blocks = 1;
  options.latent_dim = 4;
  Encoder encoder(options);
  Decoder decoder(options);
  const auto images = at::rand({2, 3, 16, 16});
  const auto gradients = [&](bool recompute, Precision precision) {
    const AutocastGuard autocast(precision, at::kCPU);
    encoder->recompute = decoder->recompute = recompute;
    encoder->zero_grad();
    decoder->zero_grad();
    decoder->forward(encoder->forward(images)).square().mean().backward();
    std::vector<torch::Tensor> found;
    for (const auto& parameter : encoder->parameters()) found.push_back(parameter.grad().clone());
    for (const auto& parameter : decoder->parameters()) found.push_back(parameter.grad().clone());
    return found;
  };
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    const auto expected = gradients(false, precision), found = gradients(true, precision);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  }
}

}  // namespace
}  // namespace nsvq
