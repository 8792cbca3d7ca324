#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nsvq/nn/inception_blocks.h"

namespace nsvq {

/// InceptionV3 up to its last average pool. Tensors are named as in torchvision and in the official
/// file of FID, pt_inception-2015-12-05-6726825d.pth (`Mixed_5b.branch1x1.conv.weight`), and random
/// until loaded; none asks for a gradient.
class Inception : public torch::nn::Module {
 public:
  /// The network of FID averages without the padding and ends in a maximum (Mixed_7c), where
  /// torchvision's has averages that count it.
  enum class Variant { fid, torchvision };
  static constexpr int64_t kSize = 299;
  static constexpr int64_t kFeatures = 2048;

  explicit Inception(Variant variant = Variant::fid);

  /// Images [B, 3, H, W] in [0, 1], resized as pytorch-fid does (bilinear, no antialiasing), to
  /// [B, 2048].
  torch::Tensor forward(const torch::Tensor& images) const;

  struct Step {
    std::string name;
    std::function<torch::Tensor(const torch::Tensor& x)> run;
  };
  /// From an input [B, 3, H, W] in [-1, 1] to [B, 2048], one after the other.
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void add_conv(int64_t inputs, const InceptionConvShape& shape);
  void add_pool(const std::string& name);
  /// The outputs of the block.
  int64_t add_block(const std::string& name, int64_t inputs,
                    const std::vector<InceptionBranch>& branches);

  std::vector<Step> steps_;
};

}  // namespace nsvq
