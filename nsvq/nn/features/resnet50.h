#pragma once

#include <optional>
#include <vector>

#include "nsvq/nn/features/conv_norm.h"
#include "nsvq/nn/features/feature_net.h"

namespace nsvq {

/// torchvision's ResNet-50 without its classifier, in evaluation mode; features are the outputs of
/// its four layers, of 1/4 to 1/32 of an image's size.
class ResNet50 : public FeatureNet {
 public:
  ResNet50();
  std::vector<torch::Tensor> features(const torch::Tensor& images) override;

 private:
  struct Bottleneck {
    ConvNorm reduce, transform, expand;
    std::optional<ConvNorm> shortcut;  ///< where the size or the number of channels changes
    torch::Tensor forward(const torch::Tensor& x) const;
  };
  static Bottleneck make_bottleneck(torch::nn::Module& parent, int64_t inputs, int64_t width,
                                    int64_t stride);

  ConvNorm stem_;
  std::vector<std::vector<Bottleneck>> layers_;
};

/// The classifier of torchvision's ResNet-50, frozen: `fc.weight` [1000, 2048] and `fc.bias`.
class ResNet50Head : public torch::nn::Module {
 public:
  ResNet50Head();
  /// The last features [B, 2048, h, w] to logits [B, 1000] of ImageNet's classes.
  torch::Tensor forward(const torch::Tensor& features) const;

 private:
  torch::Tensor weight_, bias_;
};

}  // namespace nsvq
