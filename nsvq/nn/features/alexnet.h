#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

/// torchvision's AlexNet (one tower) up to its last convolution; features are the ReLU outputs of
/// all five convolutions.
struct AlexNet : FeatureNet {
  AlexNet();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  struct Layer {
    bool pool;  // max pool before the convolution
    std::shared_ptr<torch::nn::Conv2dImpl> convolution;
  };

  std::vector<Layer> layers_;
};

}  // namespace nsvq
