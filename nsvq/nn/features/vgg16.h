#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

/// VGG16 up to its last convolution; features are relu1_2, relu2_2, relu3_3, relu4_3 and relu5_3.
struct Vgg16 : FeatureNet {
  Vgg16();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  std::vector<std::vector<std::shared_ptr<torch::nn::Conv2dImpl>>> blocks_;
};

}  // namespace nsvq
