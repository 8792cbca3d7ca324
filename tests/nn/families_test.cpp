// Networks of model.family: sizes, names, refused settings, memory formats. golden_test.cpp has
// their values.
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <string>
#include <tuple>
#include <vector>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/autoencoder.h"
#include "nsvq/nn/network_form.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

ModelConfig small_of(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.width = 32;
  config.multipliers = {1, 2, 2};
  config.blocks = 1;
  config.latent_dim = 6;
  if (family == "taming") config.z_channels = 10;
  return config;
}

/// The one of taming-transformers with a stride of 16, which LlamaGen has too.
ModelConfig taming_f16(int64_t latent_dim) {
  ModelConfig config;
  config.family = "taming";
  config.multipliers = {1, 1, 2, 2, 4};
  config.latent_dim = latent_dim;
  config.z_channels = 256;
  config.attention = {4};
  config.mid_attention = true;
  return config;
}

int64_t parameters(const ModelConfig& config) {
  return parameter_count(*Encoder(config)) + parameter_count(*Decoder(config));
}

// Published numbers without the codes.

TEST(Families, TamingHasItsParameters) {
  EXPECT_EQ(parameters(taming_f16(256)), 72141699 - 1024 * 256);
  EXPECT_EQ(parameters(taming_f16(256)), 76073859 - 16384 * 256);
}

TEST(Families, LlamaGenHasItsParameters) {
  auto config = taming_f16(8);
  EXPECT_EQ(parameters(config), 71883403 - 16384 * 8);
  config.multipliers = {1, 2, 2, 4};
  config.attention = {3};
  EXPECT_EQ(parameters(config), 70109835 - 16384 * 8);
}

TEST(Families, IbqHasItsParameters) {
  auto config = taming_f16(256);
  config.blocks = 4;
  EXPECT_EQ(parameters(config), 107049859 - 1024 * 256);
  EXPECT_EQ(parameters(config), 173896579 - 262144 * 256);
}

TEST(Families, VarHasItsParameters) {
  auto config = taming_f16(32);
  config.width = 160;
  config.z_channels = 0;
  config.latent_kernel = 3;
  constexpr int64_t phi = 32 * 32 * 9 + 32;
  EXPECT_EQ(parameters(config), 108948355 - 4096 * 32 - 4 * phi);
}

TEST(Families, MaskgitHasItsParameters) {
  ModelConfig config;
  config.family = "maskgit";
  config.multipliers = {1, 1, 2, 2, 4};
  config.latent_dim = 256;
  EXPECT_EQ(parameters(config), 54515587 - 1024 * 256);
}

TEST(Families, Magvit2HasItsParameters) {
  ModelConfig config;
  config.family = "magvit2";
  config.multipliers = {1, 1, 2, 2, 4};
  config.blocks = 4;
  config.latent_dim = 18;
  EXPECT_EQ(parameters(config), 115127829);
}

struct Names {
  const char* family;
  std::vector<const char*> encoder, not_encoder, decoder, not_decoder;
};

TEST(Families, ParametersHaveTheNamesOfTaming) {
  const std::vector<Names> cases = {
      {"taming",
       {"conv_in.bias", "down.0.block.0.conv1.bias", "down.1.block.0.nin_shortcut.bias",
        "down.1.downsample.weight", "mid.block_2.conv2.bias", "quant_conv.weight"},
       {"down.2.downsample.weight", "mid.block_3.conv1.weight", "post_quant_conv.weight"},
       {"post_quant_conv.bias", "up.0.block.1.conv1.bias", "up.1.upsample.bias"},
       {"up.0.block.2.conv1.bias", "up.0.upsample.bias", "quant_conv.weight",
        "adaptive.0.gamma.weight"}},
      {"maskgit",
       {"mid.block_1.conv1.weight", "down.1.block.0.nin_shortcut.weight", "conv_out.bias"},
       {"conv_in.bias", "down.0.downsample.weight", "mid.block_2.conv1.weight",
        "down.0.block.0.conv1.bias", "quant_conv.weight"},
       {"up.1.upsample.bias", "conv_in.bias"},
       {"up.0.block.1.conv1.weight", "post_quant_conv.weight"}},
      {"maskbit",
       {"mid.block_1.conv1.weight", "down.0.downsample.bias"},
       {"conv_in.bias", "mid.block_2.conv1.weight", "down.2.downsample.bias"},
       {"up.1.upsample.bias"},
       {"up.0.block.1.conv1.weight"}},
      {"magvit2",
       {"mid.block_1.conv1.weight", "down.0.downsample.bias"},
       {"mid.block_2.conv1.weight", "adaptive.0.gamma.weight"},
       {"adaptive.0.gamma.weight", "adaptive.2.beta.bias", "up.2.upsample.weight"},
       {"adaptive.3.beta.bias", "up.0.block.1.conv1.weight"}},
  };
  for (const auto& names : cases) {
    const auto config = small_of(names.family);
    const auto encoder = Encoder(config)->named_parameters();
    const auto decoder = Decoder(config)->named_parameters();
    for (const char* name : names.encoder) EXPECT_TRUE(encoder.contains(name)) << name;
    for (const char* name : names.not_encoder) EXPECT_FALSE(encoder.contains(name)) << name;
    for (const char* name : names.decoder) EXPECT_TRUE(decoder.contains(name)) << name;
    for (const char* name : names.not_decoder) EXPECT_FALSE(decoder.contains(name)) << name;
  }
}

TEST(Families, MiddleBlocksAreAsManyAsALevelsInSome) {
  for (const auto& [family, last] :
       {std::pair{"nsvq", 2}, {"taming", 2}, {"maskgit", 4}, {"maskbit", 4}, {"magvit2", 4}}) {
    auto config = small_of(family);
    config.blocks = 4;
    config.mid_attention = true;
    const auto names = Decoder(config)->named_parameters();
    const auto block = [](int i) { return "mid.block_" + std::to_string(i) + ".conv1.weight"; };
    EXPECT_TRUE(names.contains(block(last))) << family;
    EXPECT_FALSE(names.contains(block(last + 1))) << family;
    EXPECT_TRUE(names.contains("mid.attn_1.q.weight")) << family;
  }
}

/// All families, by name.
class Family : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Each, Family, testing::ValuesIn(network_families()),
                         [](const auto& family) { return family.param; });

TEST_P(Family, ShapesFollowTheStride) {
  const torch::NoGradGuard no_grad;
  Encoder encoder(small_of(GetParam()));
  Decoder decoder(small_of(GetParam()));
  for (const auto& [b, h, w] :
       {std::tuple{1, 4, 4}, std::tuple{2, 28, 4}, std::tuple{3, 12, 20}, std::tuple{0, 8, 8}}) {
    const auto latents = encoder->forward(at::rand({b, 3, h, w}));
    EXPECT_EQ(latents.sizes(), (torch::IntArrayRef{b, 6, h / 4, w / 4}));
    const auto images = decoder->forward(latents);
    EXPECT_EQ(images.sizes(), (torch::IntArrayRef{b, 3, h, w}));
    EXPECT_TRUE(images.isfinite().all().item<bool>());
  }
}

TEST_P(Family, EveryParameterHasAGradient) {
  torch::manual_seed(0);
  auto config = small_of(GetParam());
  config.width = 64;  // in groups of one channel, norms remove the biases before them
  config.attention = {1};
  config.mid_attention = true;
  Encoder encoder(config);
  Decoder decoder(config);
  decoder->forward(encoder->forward(at::rand({2, 3, 12, 8}))).square().sum().backward();
  const auto check = [](const auto& items) {
    for (const auto& item : items) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      if (item.key().ends_with("k.bias")) continue;  // softmax ignores it
      EXPECT_GT(item.value().grad().abs().max().template item<double>(), 0) << item.key();
    }
  };
  check(encoder->named_parameters());
  check(decoder->named_parameters());
}

TEST_P(Family, ChannelsLastGivesTheSame) {
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;
  auto config = small_of(GetParam());
  config.mid_attention = true;
  Encoder encoder(config);
  Decoder decoder(config);
  const auto images = at::rand({2, 3, 12, 20}), latents = at::randn({2, 6, 3, 5});
  const auto plain_latents = encoder->forward(images), plain_images = decoder->forward(latents);
  make_channels_last(*encoder);
  make_channels_last(*decoder);
  const auto fast = [](auto& net, const torch::Tensor& x) {
    const auto y = net->forward(x.contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
    return y;
  };
  EXPECT_TRUE(at::allclose(fast(encoder, images), plain_latents, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(fast(decoder, latents), plain_images, 1e-5, 1e-5));
}

void expect_equal_if_recomputed(const ModelConfig& config, c10::Device device) {
  torch::manual_seed(2);
  Encoder encoder(config);
  Decoder decoder(config);
  encoder->to(device);
  decoder->to(device);
  use_gpu_layout(*encoder);
  use_gpu_layout(*decoder);
  const auto images = at::rand({2, 3, 8, 8}, device).contiguous(at::MemoryFormat::ChannelsLast);
  const auto gradients = [&](bool recompute) {
    const AutocastGuard autocast(Precision::bf16, device);
    encoder->recompute = decoder->recompute = recompute;
    encoder->zero_grad();
    decoder->zero_grad();
    decoder->forward(encoder->forward(images)).square().mean().backward();
    std::vector<torch::Tensor> found;
    for (const auto& parameter : encoder->parameters()) found.push_back(parameter.grad().clone());
    for (const auto& parameter : decoder->parameters()) found.push_back(parameter.grad().clone());
    return found;
  };
  const auto expected = gradients(false), found = gradients(true);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
}

TEST_P(Family, RecomputedActivationsGiveTheSameGradients) {
  expect_equal_if_recomputed(small_of(GetParam()), at::kCPU);
}

TEST_P(Family, RecomputedActivationsGiveTheSameGradientsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TorchFlags deterministic({.deterministic = true});
  expect_equal_if_recomputed(small_of(GetParam()), at::kCUDA);
}

/// On a GPU without gradients, biases are left to the next norm and pixels are doubled by copies.
TEST_P(Family, GpuGivesTheResultsOfTheCpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard exact(Tf32Work::convolutions, false);
  torch::manual_seed(3);
  auto config = small_of(GetParam());
  config.attention = {1};
  config.mid_attention = true;
  Encoder encoder(config);
  Decoder decoder(config);
  const auto images = at::rand({2, 3, 12, 20});
  const auto both = [&](c10::Device device, bool with_gradient) {
    const at::AutoGradMode mode(with_gradient);
    encoder->to(device);
    decoder->to(device);
    use_gpu_layout(*encoder);
    use_gpu_layout(*decoder);
    auto x = images.to(device);
    if (device.is_cuda()) x = x.contiguous(at::MemoryFormat::ChannelsLast);
    return decoder->forward(encoder->forward(x)).detach().cpu();
  };
  const auto expected = both(at::kCPU, false);
  for (const bool with_gradient : {false, true}) {
    EXPECT_TRUE(at::allclose(both(at::kCUDA, with_gradient), expected, 1e-4, 1e-4));
  }
}

// The layer alone: a level with no blocks.
TEST(Families, TamingPadsBelowAndOnTheRight) {
  torch::manual_seed(4);
  const torch::NoGradGuard no_grad;
  LevelImpl level({.inputs = 4,
                   .outputs = 4,
                   .blocks = 0,
                   .attention = false,
                   .resample = Resample::down,
                   .form = network_form("taming")});
  const auto parameters = level.named_parameters();
  for (const auto& [h, w] : {std::pair{2, 2}, {6, 10}, {8, 2}}) {
    const auto x = at::randn({2, 4, h, w});
    auto padded = at::zeros({2, 4, h + 1, w + 1});
    padded.slice(2, 0, h).slice(3, 0, w).copy_(x);
    const auto expected =
        at::conv2d(padded, parameters["downsample.weight"], parameters["downsample.bias"], 2);
    EXPECT_EQ(expected.sizes(), (torch::IntArrayRef{2, 4, h / 2, w / 2}));
    EXPECT_TRUE(at::allclose(level.forward({x, {}}).sum(), expected, 1e-6, 1e-6));
  }
}

TEST(Families, MaskgitsWiderBlocksLoseTheirInput) {
  torch::manual_seed(5);
  const torch::NoGradGuard no_grad;
  ResBlockImpl wider(32, 64, network_form("maskgit"));
  auto parameters = wider.named_parameters();
  EXPECT_EQ(parameters["nin_shortcut.weight"].sizes(), (torch::IntArrayRef{64, 64, 1, 1}));
  parameters["conv2.weight"].zero_();
  EXPECT_EQ(wider.forward({at::randn({1, 32, 4, 4}), {}}).sum().abs().max().item<double>(), 0);
}

TEST(Families, MomentsAreUnbiasedAndOneLatentHasADeviationToo) {
  const auto latents = at::randn({2, 3, 4, 5}, at::kDouble);
  const auto [mean, deviation] = moments_of(latents);
  const auto flat = latents.flatten(2);
  EXPECT_TRUE(at::allclose(mean, flat.mean(2)));
  const auto centred = flat - flat.mean(2, /*keepdim=*/true);
  EXPECT_TRUE(at::allclose(deviation, (centred.square().sum(2) / 19 + 1e-6).sqrt()));
  const auto one = moments_of(at::randn({2, 3, 1, 1}));
  EXPECT_TRUE(at::allclose(one.deviation, at::full({2, 3}, 1e-3)));
}

TEST(Families, HaarTransformsAreMeansAndDifferencesOf2x2Pixels) {
  const auto x = at::tensor({1., 2., 3., 4., 5., 7., 11., 13.}).view({1, 2, 2, 2});
  const auto y = to_haar(x);
  ASSERT_EQ(y.sizes(), (torch::IntArrayRef{1, 8, 1, 1}));
  EXPECT_TRUE(at::equal(y.flatten(), at::tensor({2.5, 9., -1., -3., -.5, -1., 0., 0.})));
  EXPECT_TRUE(at::equal(from_haar(y), x));
  torch::manual_seed(6);
  const auto images = at::rand({3, 3, 12, 20}, at::kDouble);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto twice = to_haar(to_haar(images.contiguous(format)));
    ASSERT_EQ(twice.sizes(), (torch::IntArrayRef{3, 48, 3, 5}));
    EXPECT_TRUE(twice.is_contiguous(format));
    EXPECT_TRUE(at::allclose(twice.slice(1, 0, 3), at::avg_pool2d(images, 4)));
    const auto back = from_haar(from_haar(twice));
    EXPECT_TRUE(back.is_contiguous(format));
    EXPECT_TRUE(at::allclose(back, images));
  }
}

TEST(Families, WaveletsAndHalvingsChangeTheStride) {
  const torch::NoGradGuard no_grad;
  for (const auto& [halvings, haar, stride] :
       {std::tuple{-1, 0, 4}, {2, 0, 4}, {1, 0, 2}, {0, 0, 1}, {1, 2, 8}, {0, 3, 8}, {-1, 1, 8}}) {
    for (const auto& family : network_families()) {
      SCOPED_TRACE(family + " " + std::to_string(halvings) + " " + std::to_string(haar));
      auto config = small_of(family);
      config.halvings = halvings;
      config.haar = haar;
      EXPECT_EQ(config.stride(), stride);
      Encoder encoder(config);
      Decoder decoder(config);
      const auto latents = encoder->forward(at::rand({1, 3, 16, 24}));
      EXPECT_EQ(latents.sizes(), (torch::IntArrayRef{1, 6, 16 / stride, 24 / stride}));
      EXPECT_EQ(decoder->forward(latents).sizes(), (torch::IntArrayRef{1, 3, 16, 24}));
    }
  }
}

TEST(Families, AllLevelsButTheLastCanHalve) {
  ModelConfig config;
  config.halvings = 4;
  EXPECT_EQ(error_of([&] { check_model(config); }),
            "model.halvings is 4, but the last of 4 levels (model.multipliers) has none after it");
}

TEST(Families, SettingsOfOtherFamiliesAreRefused) {
  const auto refusal = [](auto change) {
    ModelConfig config;
    change(config);
    return error_of([&] { check_model(config); });
  };
  EXPECT_EQ(
      refusal([](ModelConfig& c) { c.z_channels = 256; }),
      "model.z_channels is 256, but the networks of model.family nsvq have no quant_conv; set "
      "it to 0, or model.family to taming");
  EXPECT_EQ(
      refusal([](ModelConfig& c) {
        c.family = "maskgit";
        c.latent_kernel = 3;
      }),
      "model.latent_kernel is 3, but the networks of model.family maskgit have no quant_conv; "
      "set it to 1, or model.family to taming");
  EXPECT_EQ(refusal([](ModelConfig& c) {
              c.family = "taming";
              c.latent_kernel = 2;
            }),
            "model.latent_kernel is 2; set it to 1 or 3");
  EXPECT_NE(refusal([](ModelConfig& c) { c.family = "vqgan"; }).find("model.family"),
            std::string::npos);
  EXPECT_NE(refusal([](ModelConfig& c) {
              c.family = "taming";
              c.attention = {4};
            }).find("model.attention names level 4"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
