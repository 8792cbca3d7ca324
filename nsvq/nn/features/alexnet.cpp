#include "nsvq/nn/features/alexnet.h"

#include <torch/nn/modules/conv.h>

namespace nsvq {

AlexNet::AlexNet() {
  const auto first = std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(3, 64, 11).stride(4).padding(2));
  layers_ = {
      {false, add(0, first)},
      {true, add(3, make_conv({.inputs = 64, .outputs = 192, .kernel = 5}))},
      {true, add(6, make_conv({.inputs = 192, .outputs = 384}))},
      {false, add(8, make_conv({.inputs = 384, .outputs = 256}))},
      {false, add(10, make_conv({.inputs = 256, .outputs = 256}))},
  };
}

std::vector<torch::Tensor> AlexNet::features(const torch::Tensor& images) {
  std::vector<torch::Tensor> activations;
  auto x = images;
  for (const auto& layer : layers_) {
    if (layer.pool) x = at::max_pool2d(x, 3, 2);
    x = conv_relu(*layer.convolution, x);
    activations.push_back(x);
  }
  return activations;
}

}  // namespace nsvq
