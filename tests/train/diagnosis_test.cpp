#include "nsvq/train/vq/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/tiny.h"

namespace nsvq {
namespace {

class DiagnosisTest : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(0); }
  torch::Tensor parameter(const std::string& name) {
    return model_->named_parameters()[name].detach();
  }

  Tokenizer model_{tiny_config()};
  torch::Tensor images_ = at::rand({2, 3, 16, 16}) * 2 - 1;
};

TEST_F(DiagnosisTest, NamesImagesWeightsAndLayers) {
  EXPECT_EQ(first_nonfinite(model_, images_).text, "a term of the loss");
  auto bad = images_.clone();
  bad[1][0][3][3] = NAN;
  EXPECT_EQ(first_nonfinite(model_, bad).text, "the images");

  // A finite weight whose products are not.
  parameter("decoder.conv_in.weight").fill_(3e38);
  const auto found = first_nonfinite(model_, images_).text;
  EXPECT_NE(found.find(" at decoder.conv_in"), std::string::npos) << found;
  EXPECT_NE(found.find("conv"), std::string::npos) << found;

  parameter("encoder.conv_out.bias")[2] = INFINITY;
  EXPECT_TRUE(first_nonfinite(model_, images_).own);
  EXPECT_EQ(first_nonfinite(model_, images_).text, "the weight encoder.conv_out.bias");
}

TEST_F(DiagnosisTest, NamesTheGradientNearestToTheLoss) {
  for (const auto* name : {"encoder.conv_in.weight", "decoder.conv_in.weight"}) {
    auto weight = model_->named_parameters()[name];
    weight.mutable_grad() = at::full_like(weight, NAN);
  }
  EXPECT_FALSE(first_nonfinite(model_, images_).own);
  EXPECT_EQ(first_nonfinite(model_, images_).text, "the gradient of decoder.conv_in.weight");
}

}  // namespace
}  // namespace nsvq
