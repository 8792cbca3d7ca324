#include "nsvq/nn/discriminator.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <string>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

constexpr double kSlope = 0.2;  // of LeakyReLU

struct Shape {
  int64_t inputs, outputs, stride;
  bool norm;
};

/// `layers` convolutions of stride 2, one of stride 1, and a last one of stride 1 to the logits.
std::vector<Shape> layer_shapes(const DiscriminatorConfig& options) {
  check_discriminator(options);
  const auto width = [&](int64_t n) {
    return options.width * std::min<int64_t>(int64_t{1} << n, 8);
  };
  std::vector<Shape> shapes = {{3, width(0), 2, false}};
  for (int64_t n = 1; n <= options.layers; ++n)
    shapes.push_back({width(n - 1), width(n), n < options.layers ? 2 : 1, true});
  shapes.push_back({width(options.layers), 1, 1, false});
  return shapes;
}

std::shared_ptr<torch::nn::Conv2dImpl> make_patch_conv(const Shape& shape) {
  // No bias before a batch norm, which would subtract it.
  const auto conv = std::make_shared<torch::nn::Conv2dImpl>(
      torch::nn::Conv2dOptions(shape.inputs, shape.outputs, 4)
          .stride(shape.stride)
          .padding(1)
          .bias(!shape.norm));
  const torch::NoGradGuard no_grad;
  conv->weight.normal_(0, 0.02);
  return conv;
}

std::shared_ptr<torch::nn::BatchNorm2dImpl> make_batch_norm(int64_t channels) {
  const auto norm = std::make_shared<torch::nn::BatchNorm2dImpl>(channels);
  const torch::NoGradGuard no_grad;
  norm->weight.normal_(1, 0.02);
  norm->bias.zero_();
  return norm;
}

}  // namespace

DiscriminatorImpl::DiscriminatorImpl(const DiscriminatorConfig& options) : layers_(options.layers) {
  const auto main = register_module("main", std::make_shared<torch::nn::Module>());
  int64_t index = 0;  // index in taming-transformers' nn.Sequential, which also counts LeakyReLU
  for (const auto& shape : layer_shapes(options)) {
    Layer layer;
    layer.conv = main->register_module(std::to_string(index++), make_patch_conv(shape));
    if (shape.norm)
      layer.norm = main->register_module(std::to_string(index++), make_batch_norm(shape.outputs));
    ++index;
    main_.push_back(layer);
  }
}

void DiscriminatorImpl::check_image_size(int64_t height, int64_t width) const {
  // Each convolution of stride 2 halves a side, rounding down; both of stride 1 shorten it by one.
  const int64_t least = int64_t{3} << layers_;
  if (std::min(height, width) >= least) return;
  throw UserError(
      "adversarial.layers: {} layers need images of at least {}x{} and get {}x{}; lower "
      "adversarial.layers or raise data.size",
      layers_, least, least, height, width);
}

torch::Tensor DiscriminatorImpl::forward(torch::Tensor images) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3,
              "discriminator: needs images [B, 3, H, W], got ", images.sizes());
  check_image_size(images.size(2), images.size(3));
  auto x = images;
  for (const auto& layer : main_) {
    x = layer.conv->forward(x);
    if (layer.norm) {
      const bool together = sum_ && is_training();
      x = together ? sync_batch_norm(x, *layer.norm, sum_) : layer.norm->forward(x);
    }
    // In place: the backward of neither the convolution nor the norm reads its own output.
    if (&layer != &main_.back()) x = at::leaky_relu_(x, kSlope);
  }
  return x;
}

}  // namespace nsvq
