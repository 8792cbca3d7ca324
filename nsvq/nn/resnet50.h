#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nsvq/nn/feature_net.h"

namespace nsvq {

/// torchvision's ResNet-50 without its classifier, in evaluation mode; features are the outputs of
/// its four layers, of 1/4 to 1/32 of an image's size.
class ResNet50 : public FeatureNet {
 public:
  ResNet50();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  /// A convolution without bias, then batch norm by running statistics. These are parameters here,
  /// so that load_parameters fills them.
  struct ConvNorm {
    torch::Tensor kernel, scale, bias, mean, variance;
    int64_t stride = 1;
    torch::Tensor forward(const torch::Tensor& x) const;
  };
  struct ConvNormShape {
    int64_t inputs, outputs, kernel, stride;
  };
  struct Bottleneck {
    ConvNorm reduce, transform, expand;
    std::optional<ConvNorm> shortcut;  ///< where the size or the number of channels changes
    torch::Tensor forward(const torch::Tensor& x) const;
  };
  static ConvNorm add_conv_norm(torch::nn::Module& parent, const std::string& conv,
                                const std::string& norm, const ConvNormShape& shape);
  static Bottleneck make_bottleneck(torch::nn::Module& parent, int64_t inputs, int64_t width,
                                    int64_t stride);

  ConvNorm stem_;
  std::vector<std::vector<Bottleneck>> layers_;
};

}  // namespace nsvq
