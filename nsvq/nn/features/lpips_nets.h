#pragma once

#include <memory>
#include <vector>

#include "nsvq/nn/features/feature_net.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

// The networks that LPIPS has heads for.

/// VGG16 up to its last convolution; features are relu1_2, relu2_2, relu3_3, relu4_3 and relu5_3.
struct Vgg16 : FeatureNet {
  Vgg16();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  std::vector<std::vector<std::shared_ptr<torch::nn::Conv2dImpl>>> blocks_;
};

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

/// Fire module: a 1x1 convolution to few channels, then a 1x1 and a 3x3 convolution in parallel,
/// each half of the outputs.
struct FireImpl : torch::nn::Module {
  FireImpl(int64_t inputs, int64_t squeezed, int64_t outputs);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<torch::nn::Conv2dImpl> squeeze_, expand1x1_, expand3x3_;
};

/// SqueezeNet 1.1 without its classifier; features are the ReLU outputs of the first convolution
/// and of the fire modules 4, 7, 9, 10, 11 and 12 (torchvision's indices), as in LPIPS.
struct SqueezeNet : FeatureNet {
  SqueezeNet();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  struct Slice {
    bool pool;  // max pool before the modules
    std::vector<std::shared_ptr<FireImpl>> modules;
  };

  std::shared_ptr<torch::nn::Conv2dImpl> first_;
  std::vector<Slice> slices_;
};

}  // namespace nsvq
