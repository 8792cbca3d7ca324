// Parity with pytorch-fid's InceptionV3 and with torchvision's: golden/inception.py made
// golden/inception.json.
#include "nsvq/nn/features/inception.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/error.h"
#include "nsvq/nn/features/feature_net.h"
#include "tests/nn/formula_weights.h"

namespace nsvq {
namespace {

using nlohmann::json;

json read_inception_golden() {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/inception.json");
  return json::parse(file);
}

Inception make_net(Inception::Variant variant, torch::ScalarType type) {
  Inception net(variant);
  load_parameters(net, formula_weights(net), "formula");
  net.to(type);
  return net;
}

void check_steps(Inception::Variant variant, const std::string& key) {
  const auto golden = read_inception_golden().at(key);
  const auto& expected = golden.at("steps");
  const auto net = make_net(variant, torch::kDouble);
  ASSERT_EQ(net.steps().size(), expected.size());
  const auto shape = golden.at("input").get<std::vector<int64_t>>();
  auto x = draw_golden("input", shape).to(torch::kDouble);
  for (const auto& step : net.steps()) {
    SCOPED_TRACE(key + " " + step.name);
    x = step.run(x);
    ASSERT_TRUE(expected.contains(step.name));
    ASSERT_EQ(x.sizes().vec(), expected.at(step.name).at("shape").get<std::vector<int64_t>>());
    const auto& golden_step = expected.at(step.name);
    ASSERT_GE(golden_step.at("samples").size(), 16u);
    expect_golden(x, golden_step, 1e-8, step.name);
  }
}

TEST(InceptionGolden, EveryLayerMatchesPytorchFid) { check_steps(Inception::Variant::fid, "fid"); }

TEST(InceptionGolden, EveryLayerMatchesTorchvision) {
  check_steps(Inception::Variant::torchvision, "torchvision");
}

TEST(InceptionGolden, FeaturesOfImagesMatchPytorchFid) {
  const auto net = make_net(Inception::Variant::fid, torch::kFloat);
  const auto goldens = read_inception_golden();
  for (const auto& golden : goldens.at("features")) {
    SCOPED_TRACE(golden.at("images").dump());
    const auto shape = golden.at("images").get<std::vector<int64_t>>();
    const auto images = draw_golden("images", shape) / 2 + 0.5;
    for (const auto format : {torch::MemoryFormat::Contiguous, torch::MemoryFormat::ChannelsLast}) {
      const auto features = net.forward(images.contiguous(format));
      ASSERT_EQ(features.sizes().vec(), (std::vector<int64_t>{shape[0], Inception::kFeatures}));
      EXPECT_FALSE(features.requires_grad());
      ASSERT_GE(golden.at("samples").size(), 16u);
      expect_golden(features, golden, 1e-4, "features");
    }
  }
}

TEST(Inception, FoldedNormsGiveTheSameFeatures) {
  auto net = make_net(Inception::Variant::fid, torch::kDouble);
  const auto images = (draw_golden("images", {2, 3, 33, 41}) / 2 + 0.5).to(torch::kDouble);
  const auto expected = net.forward(images);
  net.fold();
  net.fold();  // again: nothing changes
  const auto largest = expected.abs().max().item<double>();
  EXPECT_LT((net.forward(images) - expected).abs().max().item<double>(), 1e-10 * largest);
}

TEST(Inception, SpatialFeaturesAreTheFirstChannelsOfMixed6dByPixels) {
  const auto net = make_net(Inception::Variant::fid, torch::kFloat);
  const auto images = draw_golden("images", {2, 3, 33, 41}) / 2 + 0.5;
  const auto input = Inception::pytorch_input(images);
  const auto outputs = net.outputs(input);
  EXPECT_TRUE(torch::equal(outputs.pool, net.forward(images)));
  ASSERT_EQ(outputs.spatial.sizes(), torch::IntArrayRef({2, Inception::kSpatialFeatures}));
  auto x = input;
  for (const auto& step : net.steps()) {
    x = step.run(x);
    if (step.name == "Mixed_6d") break;
  }
  ASSERT_EQ(x.sizes(), torch::IntArrayRef({2, 768, 17, 17}));
  for (int64_t row = 0; row < 17; row += 4) {
    for (int64_t column = 0; column < 17; column += 3) {
      for (int64_t channel = 0; channel < 7; ++channel) {
        const auto at = (row * 17 + column) * 7 + channel;
        EXPECT_EQ(outputs.spatial[1][at].item<float>(), x[1][channel][row][column].item<float>());
      }
    }
  }
}

TEST(InceptionHead, GivesProbabilitiesWithoutTheBias) {
  InceptionHead head;
  const auto weight = draw_golden("head", {InceptionHead::kClasses, Inception::kFeatures});
  load_parameters(head,
                  {{"fc.weight", weight / 40},
                   {"fc.bias", torch::arange(InceptionHead::kClasses).to(torch::kFloat)}},
                  "test");
  const auto pool = draw_golden("pool", {3, Inception::kFeatures}).to(torch::kFloat);
  const auto logits =
      pool.to(torch::kDouble).mm((weight / 40).to(torch::kFloat).to(torch::kDouble).t());
  const auto expected = logits - logits.exp().sum(1, true).log();
  EXPECT_TRUE(torch::allclose(head.log_probabilities(pool), expected, 1e-10, 1e-10));
}

TEST(Inception, TensorsAreThoseOfTheOfficialFile) {
  // The numbers of torchvision's InceptionV3 without aux and fc.
  expect_conv_norms(Inception(), 94, 21'785'568,
                    {"Conv2d_1a_3x3.conv.weight", "Conv2d_1a_3x3.bn.running_mean",
                     "Mixed_6b.branch7x7dbl_5.bn.running_var", "Mixed_7c.branch_pool.bn.bias",
                     "Mixed_7a.branch7x7x3_4.conv.weight"});
}

TEST(Inception, RefusesOtherShapes) {
  const Inception net;
  EXPECT_THROW(net.forward(torch::zeros({1, 1, 32, 32})), c10::Error);
  EXPECT_THROW(net.forward(torch::zeros({3, 32, 32})), c10::Error);
  EXPECT_EQ(net.forward(torch::zeros({0, 3, 32, 32})).sizes(), torch::IntArrayRef({0, 2048}));
}

}  // namespace
}  // namespace nsvq
