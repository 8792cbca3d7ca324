#include "nsvq/nn/features/vgg16.h"

#include <torch/nn/modules/conv.h>

namespace nsvq {

namespace {

struct Block {
  int64_t channels, convolutions;
};

constexpr Block kBlocks[] = {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};

}  // namespace

Vgg16::Vgg16() {
  int64_t inputs = 3, index = 0;  // torchvision's indices count ReLUs and pools too
  for (const auto& block : kBlocks) {
    auto& convolutions = blocks_.emplace_back();
    for (int64_t i = 0; i < block.convolutions; ++i, index += 2) {
      convolutions.push_back(add(index, make_conv({.inputs = inputs, .outputs = block.channels})));
      inputs = block.channels;
    }
    ++index;
  }
}

std::vector<torch::Tensor> Vgg16::features(const torch::Tensor& images) {
  std::vector<torch::Tensor> activations;
  auto x = images;
  for (const auto& convolutions : blocks_) {
    if (!activations.empty()) x = at::max_pool2d(x, 2, 2);
    for (const auto& convolution : convolutions) x = conv_relu(*convolution, x);
    activations.push_back(x);
  }
  return activations;
}

}  // namespace nsvq
