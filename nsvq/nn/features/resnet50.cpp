#include "nsvq/nn/features/resnet50.h"

#include <array>
#include <cmath>
#include <memory>
#include <string>

namespace nsvq {

namespace {

constexpr double kEpsilon = 1e-5;  // of the batch norm
constexpr int64_t kExpansion = 4;  // a bottleneck's output channels for each of its width
constexpr std::array<int64_t, 4> kBottlenecks = {3, 4, 6, 3};  // of each layer

struct SquareConv {
  int64_t inputs, outputs, kernel, stride;
};

ConvNorm add_conv_norm(torch::nn::Module& parent, const std::string& conv, const std::string& norm,
                       const SquareConv& shape) {
  return {parent,
          conv,
          norm,
          {shape.inputs, shape.outputs, {shape.kernel, shape.kernel}, shape.stride},
          kEpsilon};
}

}  // namespace

ResNet50::Bottleneck ResNet50::make_bottleneck(torch::nn::Module& parent, int64_t inputs,
                                               int64_t width, int64_t stride) {
  const int64_t outputs = kExpansion * width;
  Bottleneck made{add_conv_norm(parent, "conv1", "bn1", {inputs, width, 1, 1}),
                  add_conv_norm(parent, "conv2", "bn2", {width, width, 3, stride}),
                  add_conv_norm(parent, "conv3", "bn3", {width, outputs, 1, 1}),
                  {}};
  if (stride == 1 && inputs == outputs) return made;
  const auto shortcut = parent.register_module("downsample", std::make_shared<torch::nn::Module>());
  made.shortcut = add_conv_norm(*shortcut, "0", "1", {inputs, outputs, 1, stride});
  return made;
}

torch::Tensor ResNet50::Bottleneck::forward(const torch::Tensor& x) const {
  const auto branch = expand.forward(transform.forward(reduce.forward(x).relu()).relu());
  return (branch + (shortcut ? shortcut->forward(x) : x)).relu();
}

ResNet50::ResNet50() : stem_(add_conv_norm(*this, "conv1", "bn1", {3, 64, 7, 2})) {
  int64_t channels = 64, width = 64;
  for (size_t layer = 0; layer < kBottlenecks.size(); ++layer) {
    const auto parent =
        register_module("layer" + std::to_string(layer + 1), std::make_shared<torch::nn::Module>());
    auto& bottlenecks = layers_.emplace_back();
    for (int64_t i = 0; i < kBottlenecks[layer]; ++i) {
      const auto part =
          parent->register_module(std::to_string(i), std::make_shared<torch::nn::Module>());
      const bool halves = layer > 0 && i == 0;
      bottlenecks.push_back(make_bottleneck(*part, channels, width, halves ? 2 : 1));
      channels = kExpansion * width;
    }
    width *= 2;
  }
}

std::vector<torch::Tensor> ResNet50::features(const torch::Tensor& images) {
  auto x = at::max_pool2d(stem_.forward(images).relu(), 3, 2, 1);
  std::vector<torch::Tensor> activations;
  for (const auto& layer : layers_) {
    for (const auto& bottleneck : layer) x = bottleneck.forward(x);
    activations.push_back(x);
  }
  return activations;
}

ResNet50Head::ResNet50Head() {
  constexpr int64_t classes = 1000, channels = 2048;
  const auto fc = register_module("fc", std::make_shared<torch::nn::Module>());
  const double bound = 1 / std::sqrt(static_cast<double>(channels));
  weight_ = fc->register_parameter("weight", at::empty({classes, channels}).uniform_(-bound, bound),
                                   /*requires_grad=*/false);
  bias_ = fc->register_parameter("bias", at::zeros({classes}), /*requires_grad=*/false);
}

torch::Tensor ResNet50Head::forward(const torch::Tensor& features) const {
  return at::linear(features.mean({2, 3}), weight_, bias_);
}

}  // namespace nsvq
