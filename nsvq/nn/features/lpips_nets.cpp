#include "nsvq/nn/features/lpips_nets.h"

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

namespace {

std::shared_ptr<FireImpl> fire(int64_t inputs, int64_t squeezed, int64_t outputs) {
  return std::make_shared<FireImpl>(inputs, squeezed, outputs);
}

}  // namespace

FireImpl::FireImpl(int64_t inputs, int64_t squeezed, int64_t outputs) {
  const int64_t half = outputs / 2;
  squeeze_ =
      register_module("squeeze", make_conv({.inputs = inputs, .outputs = squeezed, .kernel = 1}));
  expand1x1_ =
      register_module("expand1x1", make_conv({.inputs = squeezed, .outputs = half, .kernel = 1}));
  expand3x3_ =
      register_module("expand3x3", make_conv({.inputs = squeezed, .outputs = half, .kernel = 3}));
}

torch::Tensor FireImpl::forward(const torch::Tensor& x) {
  const auto squeezed = conv_relu(*squeeze_, x);
  return at::cat({conv_relu(*expand1x1_, squeezed), conv_relu(*expand3x3_, squeezed)}, 1);
}

SqueezeNet::SqueezeNet() {
  first_ =
      add(0, std::make_shared<torch::nn::Conv2dImpl>(torch::nn::Conv2dOptions(3, 64, 3).stride(2)));
  slices_ = {
      {true, {add(3, fire(64, 16, 128)), add(4, fire(128, 16, 128))}},
      {true, {add(6, fire(128, 32, 256)), add(7, fire(256, 32, 256))}},
      {true, {add(9, fire(256, 48, 384))}},
      {false, {add(10, fire(384, 48, 384))}},
      {false, {add(11, fire(384, 64, 512))}},
      {false, {add(12, fire(512, 64, 512))}},
  };
}

std::vector<torch::Tensor> SqueezeNet::features(const torch::Tensor& images) {
  auto x = conv_relu(*first_, images);
  std::vector<torch::Tensor> activations = {x};
  for (const auto& slice : slices_) {
    if (slice.pool) x = at::max_pool2d(x, 3, 2, 0, 1, /*ceil_mode=*/true);
    for (const auto& module : slice.modules) x = module->forward(x);
    activations.push_back(x);
  }
  return activations;
}

}  // namespace nsvq
