#include "nsvq/nn/discriminator.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <algorithm>
#include <string>
#include <utility>

#include "nsvq/core/error.h"

namespace nsvq {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

torch::Tensor sum_by_channel(const torch::Tensor& values) { return values.sum({0, 2, 3}); }

torch::Tensor along_channels(const torch::Tensor& values) { return values.view({1, -1, 1, 1}); }

torch::Tensor widened(const torch::Tensor& values) {
  return values.scalar_type() == at::kDouble ? values : values.to(at::kFloat);
}

class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  /// The normalised images, and for running statistics mean, variance and number of values.
  static variable_list forward(AutogradContext* context, const torch::Tensor& images,
                               const torch::Tensor& weight, const torch::Tensor& bias, double eps,
                               const SumOverRanks& sum) {
    const auto x = widened(images);
    const int64_t channels = x.size(1);
    const int64_t pixels = x.numel() / channels;
    const auto own = static_cast<double>(pixels);
    const auto own_mean = sum_by_channel(x) / own;
    // Squares about the own mean, moved to zero in fp64, where what cancels does not matter.
    const auto spread = sum_by_channel((x - along_channels(own_mean)).square()).to(at::kDouble);
    const auto wide_mean = own_mean.to(at::kDouble);
    const auto sums = at::cat({wide_mean * own, spread + wide_mean.square() * own,
                               at::full({1}, own, wide_mean.options())});
    sum(sums);
    const auto count = sums[2 * channels];
    const auto mean = sums.narrow(0, 0, channels) / count;
    const auto variance = (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min(0);
    const auto center = mean.to(x.scalar_type());
    const auto factor = (variance + eps).rsqrt().to(x.scalar_type());
    context->save_for_backward({images, weight, center, factor, count.to(x.scalar_type())});
    context->saved_data["sum"] = c10::IValue::make_capsule(c10::make_intrusive<Sum>(sum));
    context->mark_non_differentiable({mean, variance, count});
    const auto made =
        (x - along_channels(center)) * along_channels(factor * weight) + along_channels(bias);
    return {made.to(images.scalar_type()), mean, variance, count};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "sync_batch_norm: has no second derivative");
    const auto saved = context->get_saved_variables();
    const auto &images = saved[0], &weight = saved[1], &center = saved[2], &factor = saved[3],
               &count = saved[4];
    const auto gradient = widened(gradients[0]);
    const auto x = (widened(images) - along_channels(center)) * along_channels(factor);
    const auto of_bias = sum_by_channel(gradient), of_weight = sum_by_channel(gradient * x);
    const auto means = at::stack({of_bias, of_weight});
    static_cast<Sum&>(*context->saved_data["sum"].toCapsule()).add(means);
    means.div_(count);
    const auto of_images = (gradient - along_channels(means[0]) - x * along_channels(means[1])) *
                           along_channels(factor * weight);
    return {of_images.to(images.scalar_type()), of_weight, of_bias, torch::Tensor(),
            torch::Tensor()};
  }

 private:
  /// Kept from the forward to the backward pass.
  struct Sum : torch::CustomClassHolder {
    explicit Sum(SumOverRanks over_ranks) : add(std::move(over_ranks)) {}
    SumOverRanks add;
  };
};

}  // namespace

torch::Tensor sync_batch_norm(const torch::Tensor& images, torch::nn::BatchNorm2dImpl& norm,
                              const SumOverRanks& sum) {
  const auto results =
      SyncBatchNorm::apply(images, norm.weight, norm.bias, norm.options.eps(), sum);
  const torch::NoGradGuard no_grad;
  const auto &mean = results[1], &variance = results[2], &count = results[3];
  const double momentum = norm.options.momentum().value_or(0.1);
  const auto follow = [&](const torch::Tensor& running, const torch::Tensor& value) {
    running.lerp_(value.to(running.scalar_type()), momentum);
  };
  follow(norm.running_mean, mean);
  follow(norm.running_var, variance * count / (count - 1).clamp_min(1));
  norm.num_batches_tracked.add_(1);
  return results[0];
}

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
