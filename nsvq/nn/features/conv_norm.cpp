#include "nsvq/nn/features/conv_norm.h"

#include <torch/nn/module.h>

#include <cmath>
#include <memory>

namespace nsvq {

ConvNorm::ConvNorm(torch::nn::Module& parent, const std::string& conv, const std::string& norm,
                   const ConvNormShape& shape, double epsilon)
    : stride_(shape.stride), epsilon_(epsilon) {
  const auto [height, width] = shape.kernel;
  if (shape.padded) {
    padding_ = {height / 2, width / 2};
  } else {
    padding_ = {0, 0};
  }
  const auto kernels = parent.register_module(conv, std::make_shared<torch::nn::Module>());
  const auto numbers = parent.register_module(norm, std::make_shared<torch::nn::Module>());
  const double bound = std::sqrt(6.0 / static_cast<double>(shape.inputs * height * width));
  const auto random =
      at::empty({shape.outputs, shape.inputs, height, width}).uniform_(-bound, bound);
  const auto add = [&](const char* name, const torch::Tensor& value) {
    return numbers->register_parameter(name, value, /*requires_grad=*/false);
  };
  kernel_ = kernels->register_parameter("weight", random, /*requires_grad=*/false);
  scale_ = add("weight", at::ones({shape.outputs}));
  bias_ = add("bias", at::zeros({shape.outputs}));
  mean_ = add("running_mean", at::zeros({shape.outputs}));
  variance_ = add("running_var", at::ones({shape.outputs}));
}

void ConvNorm::fold() {
  if (folded_) return;
  const torch::NoGradGuard no_grad;
  const auto factor = scale_.to(at::kDouble) / (variance_.to(at::kDouble) + epsilon_).sqrt();
  kernel_.copy_(kernel_.to(at::kDouble) * factor.view({-1, 1, 1, 1}));
  bias_.copy_(bias_.to(at::kDouble) - mean_.to(at::kDouble) * factor);
  folded_ = true;
}

torch::Tensor ConvNorm::forward(const torch::Tensor& x) const {
  if (folded_) return at::conv2d(x, kernel_, bias_, stride_, padding_);
  const auto y = at::conv2d(x, kernel_, {}, stride_, padding_);
  return at::batch_norm(y, scale_, bias_, mean_, variance_, /*training=*/false, /*momentum=*/0,
                        epsilon_, /*cudnn_enabled=*/true);
}

}  // namespace nsvq
