// Parity with torchvision's ResNet-50: golden/resnet50.py made golden/resnet50.json.
#include "nsvq/nn/features/resnet50.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/nn/formula_weights.h"

namespace nsvq {
namespace {

TEST(ResNet50, EveryLayerMatchesTorchvision) {
  ResNet50 net;
  load_parameters(net, formula_weights(net), "formula");
  net.to(torch::kDouble);
  std::ifstream file(NSVQ_TESTS_DIR "/golden/resnet50.json");
  for (const auto& golden : nlohmann::json::parse(file)) {
    SCOPED_TRACE(golden.at("input").dump());
    const auto shape = golden.at("input").get<std::vector<int64_t>>();
    const auto layers = net.features(draw_golden("input", shape).to(torch::kDouble));
    ASSERT_EQ(layers.size(), golden.at("layers").size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto& expected = golden.at("layers").at(i);
      ASSERT_EQ(layers[i].sizes().vec(), expected.at("shape").get<std::vector<int64_t>>());
      ASSERT_EQ(expected.at("samples").size(), 16u);
      expect_golden(layers[i], expected, 1e-8, "layer" + std::to_string(i + 1));
    }
  }
}

TEST(ResNet50, TensorsAreThoseOfTheOfficialFile) {
  // The numbers of torchvision's ResNet-50 without fc.
  expect_conv_norms(ResNet50(), 53, 23'508'032,
                    {"conv1.weight", "bn1.running_mean", "layer1.0.downsample.1.running_var",
                     "layer3.5.conv2.weight", "layer4.2.bn3.bias"});
}

}  // namespace
}  // namespace nsvq
