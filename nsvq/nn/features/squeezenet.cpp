#include "nsvq/nn/features/squeezenet.h"

#include <torch/nn/modules/conv.h>

namespace nsvq {

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
