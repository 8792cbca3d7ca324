#include "nsvq/nn/style_discriminator.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/layers.h"
#include "nsvq/nn/vit.h"

namespace nsvq {

namespace {

constexpr double kLeakySlope = 0.2;      // of LeakyReLU
constexpr int64_t kStyleSide = 4;        // after the last block, where the size allows it
constexpr int64_t kMostStyleLayers = 8;  // of adversarial.layers
constexpr int64_t kMostNumbers = int64_t{1} << 28;  // of the first linear layer
constexpr int64_t kImagesOfGroup = 4;               // over which the deviation is computed, at most

/// Channels after `blocks` blocks.
int64_t channels_after(int64_t blocks, int64_t width) {
  return width * std::min<int64_t>(int64_t{1} << blocks, 8);
}

std::shared_ptr<torch::nn::Conv2dImpl> make_xavier_conv(const ConvShape& shape) {
  auto conv = make_conv(shape);
  const torch::NoGradGuard no_grad;
  const double area = static_cast<double>(shape.kernel * shape.kernel);
  const double bound = std::sqrt(6 / (area * static_cast<double>(shape.inputs + shape.outputs)));
  conv->weight.uniform_(-bound, bound);
  if (shape.bias) conv->bias.zero_();
  return conv;
}

/// Throws UserError where too many pixels are left for the layer that joins them.
void check_linear_layer(const DiscriminatorConfig& options, int64_t channels, int64_t side) {
  const int64_t numbers = channels * channels * side * side;
  if (numbers <= kMostNumbers) return;
  throw UserError(
      "adversarial.layers: stylegan leaves {0}x{0} pixels of {1} channels after {2} layers, for a "
      "linear layer of {3} numbers; raise it, or lower adversarial.width",
      side, channels, options.layers, numbers);
}

torch::Tensor activated(const torch::Tensor& x) { return at::leaky_relu(x, kLeakySlope); }

}  // namespace

int64_t style_layers(int64_t size) {
  int64_t layers = 0;
  while (layers < kMostStyleLayers && size % 2 == 0 && size / 2 >= kStyleSide) {
    size /= 2;
    ++layers;
  }
  return std::max<int64_t>(1, layers);
}

torch::Tensor with_batch_deviation(const torch::Tensor& images) {
  const int64_t batch = images.size(0);
  int64_t together = kImagesOfGroup;
  while (together > 1 && (together > batch || batch % together != 0)) --together;
  const int64_t groups = batch / together;
  const int64_t values = images.size(1) * images.size(2) * images.size(3);
  const auto grouped = at_least_fp32(images).reshape({together, groups, values});
  const auto variance = (grouped - grouped.mean(0)).square().mean(0);
  const auto deviation = (variance + 1e-8).sqrt().mean(1);  // [groups]
  const auto channel = deviation.repeat({together}).view({batch, 1, 1, 1}).to(images.scalar_type());
  return at::cat({images, channel.expand({batch, 1, images.size(2), images.size(3)})}, 1);
}

StyleDiscriminatorImpl::StyleDiscriminatorImpl(const DiscriminatorConfig& options, int64_t size)
    : layers_(options.layers), size_(size) {
  check_discriminator(options);
  check_image_size(size, size);
  const int64_t channels = channels_after(layers_, options.width), side = size >> layers_;
  check_linear_layer(options, channels, side);
  const auto line = at::tensor({1.0, 3.0, 3.0, 1.0}, at::kFloat) / 8;
  blur_ = register_buffer("blur", at::outer(line, line).view({1, 1, 4, 4}));
  first_ = register_module("first", make_xavier_conv({3, options.width}));
  for (int64_t n = 0; n < layers_; ++n) {
    const int64_t inputs = channels_after(n, options.width);
    const int64_t outputs = channels_after(n + 1, options.width);
    const auto parent =
        register_module("block_" + std::to_string(n), std::make_shared<torch::nn::Module>());
    blocks_.push_back(
        {parent->register_module("keep", make_xavier_conv({inputs, inputs})),
         parent->register_module("widen", make_xavier_conv({inputs, outputs})),
         parent->register_module(
             "skip", make_xavier_conv(
                         {.inputs = inputs, .outputs = outputs, .kernel = 1, .bias = false}))});
  }
  last_ = register_module("last", make_xavier_conv({channels + 1, channels}));
  join_ = register_module("join", make_xavier_linear(channels * side * side, channels));
  judge_ = register_module("judge", make_xavier_linear(channels, 1));
}

void StyleDiscriminatorImpl::check_image_size(int64_t height, int64_t width) const {
  const int64_t factor = int64_t{1} << layers_;
  if (height != width || height != size_) {
    throw UserError("adversarial.network: stylegan was made for images of {0}x{0} and gets {1}x{2}",
                    size_, height, width);
  }
  if (size_ % factor == 0) return;
  throw UserError(
      "adversarial.layers: stylegan halves images {} times, so data.size has to be a multiple of "
      "{}, and it is {}; change one of them",
      layers_, factor, size_);
}

/// Without aliasing: blurred, then every second pixel.
torch::Tensor StyleDiscriminatorImpl::halved(const torch::Tensor& x) const {
  const auto kernel = blur_.expand({x.size(1), 1, 4, 4}).to(x.scalar_type());
  return at::conv2d(x, kernel, {}, /*stride=*/2, /*padding=*/1, /*dilation=*/1,
                    /*groups=*/x.size(1));
}

torch::Tensor StyleDiscriminatorImpl::through(const Block& block, const torch::Tensor& x) const {
  const auto branch = activated(block.widen->forward(halved(activated(block.keep->forward(x)))));
  return (block.skip->forward(halved(x)) + branch) / std::sqrt(2.0);
}

torch::Tensor StyleDiscriminatorImpl::forward(torch::Tensor images) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3,
              "discriminator: needs images [B, 3, H, W], got ", images.sizes());
  check_image_size(images.size(2), images.size(3));
  auto x = activated(first_->forward(images));
  for (const auto& block : blocks_) x = through(block, x);
  x = activated(last_->forward(with_batch_deviation(x)));
  x = activated(join_->forward(x.flatten(1)));
  return judge_->forward(x).view({-1, 1, 1, 1});
}

}  // namespace nsvq
