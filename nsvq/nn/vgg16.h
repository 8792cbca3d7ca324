#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/feature_net.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

/// VGG16 up to its last convolution; activations are those of relu1_2, 2_2, 3_3, 4_3 and 5_3.
struct Vgg16 : FeatureNet {
  Vgg16();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  std::vector<std::vector<std::shared_ptr<torch::nn::Conv2dImpl>>> blocks_;
};

}  // namespace nsvq
