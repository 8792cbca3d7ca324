#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nsvq/nn/features/inception_blocks.h"

namespace nsvq {

/// InceptionV3 up to its last average pool, frozen. Tensors are named as in torchvision and in
/// FID's official file pt_inception-2015-12-05-6726825d.pth (`Mixed_5b.branch1x1.conv.weight`), and
/// random until loaded.
class Inception : public torch::nn::Module {
 public:
  /// FID's network differs from torchvision's in two ways: its average pools do not count padding,
  /// and the pool of Mixed_7c is a max pool.
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
  /// The layers in order, from an input [B, 3, H, W] in [-1, 1] to [B, 2048].
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void add_conv(int64_t inputs, const InceptionConvShape& shape);
  void add_pool(const std::string& name);
  /// Appends a block; returns its number of output channels.
  int64_t add_block(const std::string& name, int64_t inputs,
                    const std::vector<InceptionBranch>& branches);

  std::vector<Step> steps_;
};

}  // namespace nsvq
