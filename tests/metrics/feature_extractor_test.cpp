// Features for Fréchet distances, with random weights in a store of the test's own.
#include "nsvq/metrics/sets/feature_extractor.h"

#include <gtest/gtest.h>

#include <set>

#include "nsvq/core/error.h"
#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/features/inception.h"
#include "nsvq/nn/weights.h"
#include "tests/environment.h"
#include "tests/losses/random_lpips.h"

namespace nsvq {
namespace {

TensorMap inception_weights() {
  const Inception net;
  TensorMap tensors;
  for (const auto& item : net.named_parameters()) tensors[item.key()] = item.value();
  return tensors;
}

class FeatureExtractors : public testing::Test {
 protected:
  void store_feature_nets() {
    for (const auto& kind : feature_net_kinds()) {
      save_weights(kind.weights, {random_weights(*kind.make()), "a test", true});
    }
  }

  std::string error_of(const std::string& name) {
    try {
      make_feature_extractor(name, {});
      return "";
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
  }

  TemporaryFolder folder_;
  Environment store_{"NSVQ_WEIGHTS", folder_.path()};
};

TEST_F(FeatureExtractors, OfEveryName) {
  store_feature_nets();
  save_weights("inception", {inception_weights(), "a test", true});
  torch::manual_seed(1);
  const auto images = torch::rand({3, 3, 45, 37}) * 2 - 1;
  std::set<std::string> names;
  for (const auto& kind : feature_extractor_kinds()) {
    SCOPED_TRACE(kind.name);
    EXPECT_TRUE(names.insert(kind.name).second);
    EXPECT_FALSE(kind.summary.empty());
    const auto extractor = make_feature_extractor(kind.name, {});
    EXPECT_EQ(extractor.name, kind.name);
    EXPECT_EQ(extractor.channels, kind.channels);
    auto asking = images.clone().requires_grad_();
    const auto features = extractor.features(asking);
    EXPECT_FALSE(features.requires_grad());
    EXPECT_EQ(features.scalar_type(), torch::kFloat);
    ASSERT_EQ(features.sizes(), torch::IntArrayRef({3, kind.channels}));
    EXPECT_TRUE(features.isfinite().all().item<bool>());
    // Each image by itself, whatever its layout.
    const auto last = images.narrow(0, 2, 1).contiguous(torch::MemoryFormat::ChannelsLast);
    EXPECT_TRUE(torch::allclose(extractor.features(last)[0], features[2], 1e-3, 1e-4));
    EXPECT_FALSE(torch::allclose(features[1], features[2], 1e-3, 1e-4));
    EXPECT_THROW(extractor.features(torch::zeros({1, 1, 64, 64})), c10::Error);
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"fid", "sfid", "fd-vgg16", "fd-alexnet", "fd-squeezenet1_1"}));
}

TEST_F(FeatureExtractors, AreTheNetworksOwn) {
  const auto weights = inception_weights();
  save_weights("inception", {weights, "a test", true});
  const auto images = draw("images", {2, 3, 40, 33}).to(torch::kFloat);
  MetricOptions options;
  options.conventions.network = PixelRule::unrounded;
  Inception inception;
  load_parameters(inception, weights, "test");
  EXPECT_TRUE(torch::allclose(make_feature_extractor("fid", options).features(images),
                              inception.forward((images + 1) / 2), 1e-4, 1e-5));
  options.conventions.inception = InceptionResize::tensorflow;
  const auto outputs = inception.outputs(Inception::tensorflow_input((images + 1) * 127.5));
  EXPECT_TRUE(torch::allclose(make_feature_extractor("fid", options).features(images), outputs.pool,
                              1e-3, 1e-4));
  EXPECT_TRUE(torch::allclose(make_feature_extractor("sfid", options).features(images),
                              outputs.spatial, 1e-3, 1e-4));
  const auto vgg = feature_net_kind("vgg").make();
  load_parameters(*vgg, random_weights(*vgg), "test");
  save_weights("vgg16", {random_weights(*vgg), "a test", true});
  // ImageNet's mean and deviation for [0, 1], which LPIPS rounds to three digits.
  const auto mean = torch::tensor({0.485, 0.456, 0.406}).view({1, 3, 1, 1});
  const auto deviation = torch::tensor({0.229, 0.224, 0.225}).view({1, 3, 1, 1});
  const auto activation = vgg->features(((images + 1) / 2 - mean) / deviation).back();
  const auto features = make_feature_extractor("fd-vgg16", options).features(images);
  EXPECT_TRUE(torch::allclose(features, activation.mean({2, 3}), 1e-3, 1e-4));
}

TEST_F(FeatureExtractors, MissingWeightsNameTheCommand) {
  const auto expect = [&](const std::string& name, const std::string& command) {
    const auto error = error_of(name);
    EXPECT_NE(error.find("`" + command + "`"), std::string::npos) << error;
  };
  expect("fid", "nsvq weights get inception");
  expect("sfid", "nsvq weights get inception");
  expect("fd-vgg16", "nsvq weights get lpips-vgg");
  expect("fd-alexnet", "nsvq weights get lpips-alex");
  expect("fd-squeezenet1_1", "nsvq weights import squeezenet1_1-b8a52dc0.pth --as squeezenet1_1");
  EXPECT_NE(error_of("fd-vgg61").find("did you mean 'fd-vgg16'"), std::string::npos);
}

TEST_F(FeatureExtractors, FidIsOfOfficialValuesAlone) {
  save_weights("inception", {{{"fc.bias", torch::zeros({1008})}}, "mine.pth", false});
  const auto error = error_of("fid");
  EXPECT_NE(error.find("mine.pth"), std::string::npos) << error;
  EXPECT_NE(error.find("not the official values"), std::string::npos) << error;
  EXPECT_NE(error.find("remove " + weights_path("inception").string()), std::string::npos) << error;
  const auto vgg = feature_net_kind("vgg").make();
  save_weights("vgg16", {random_weights(*vgg), "mine.pth", false});
  EXPECT_EQ(error_of("fd-vgg16"), "");
}

TEST_F(FeatureExtractors, RefuseImagesTooSmallForThem) {
  store_feature_nets();
  for (const auto& name : lpips_net_names()) {
    const auto& kind = feature_net_kind(name);
    const auto extractor = make_feature_extractor("fd-" + kind.weights, {});
    const auto least = kind.least_size;
    EXPECT_NO_THROW(extractor.features(torch::zeros({1, 3, least, least})));
    EXPECT_THROW(extractor.features(torch::zeros({1, 3, least - 1, 64})), UserError);
    EXPECT_THROW(extractor.features(torch::zeros({1, 3, 64, least - 1})), UserError);
  }
}

}  // namespace
}  // namespace nsvq
