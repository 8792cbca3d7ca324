#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/feature_net.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

/// AlexNet up to its last convolution (torchvision's, of one tower); the activations of all five.
struct AlexNet : FeatureNet {
  AlexNet();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  struct Layer {
    bool pool;  // before the convolution
    std::shared_ptr<torch::nn::Conv2dImpl> convolution;
  };

  std::vector<Layer> layers_;
};

}  // namespace nsvq
