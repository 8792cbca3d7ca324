#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nsvq/nn/features/conv_norm.h"

namespace nsvq {

/// A 3x3 pool. Pools of stride 1 are padded, so that they keep the size.
enum class Pool {
  none,
  average,         ///< stride 1, padding not counted
  padded_average,  ///< stride 1, padding counted as zeros
  max,             ///< stride 1
  halving_max,     ///< stride 2, no padding
};

torch::Tensor pool3x3(const torch::Tensor& x, Pool pool);

struct InceptionConvShape {
  std::string name;  ///< name in its parent module
  int64_t outputs;
  std::array<int64_t, 2> kernel;  ///< height, width
  int64_t stride = 1;
  bool padded = true;  ///< padded so that stride 1 keeps the size
};

/// torchvision's BasicConv2d in evaluation mode: convolution, batch norm by its running statistics,
/// ReLU.
class InceptionConv : public torch::nn::Module {
 public:
  InceptionConv(int64_t inputs, const InceptionConvShape& shape);
  torch::Tensor forward(const torch::Tensor& x) const;
  void fold() { layer_.fold(); }

 private:
  ConvNorm layer_;
};

/// A pool, a chain of convolutions, then optionally a fork: parallel convolutions whose outputs are
/// concatenated.
struct InceptionBranch {
  Pool pool = Pool::none;
  std::vector<InceptionConvShape> chain, fork;
};

/// Parallel branches whose output channels are concatenated.
class InceptionBlock : public torch::nn::Module {
 public:
  InceptionBlock(int64_t inputs, const std::vector<InceptionBranch>& branches);
  torch::Tensor forward(const torch::Tensor& x) const;
  int64_t outputs() const { return outputs_; }

 private:
  struct Branch {
    Pool pool;
    std::vector<std::shared_ptr<InceptionConv>> chain, fork;
  };

  int64_t outputs_ = 0;
  std::vector<Branch> branches_;
};

/// torchvision's InceptionA to InceptionE.
std::vector<InceptionBranch> inception_a(int64_t pool_outputs, Pool pool);
std::vector<InceptionBranch> inception_b();
std::vector<InceptionBranch> inception_c(int64_t width, Pool pool);
std::vector<InceptionBranch> inception_d();
std::vector<InceptionBranch> inception_e(Pool pool);

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
  /// sFID's: the first 7 channels of Mixed_6d's branch1x1, which TensorFlow's graph calls
  /// mixed_6/conv, 17 x 17 of each.
  static constexpr int64_t kSpatialChannels = 7;
  static constexpr int64_t kSpatialFeatures = kSpatialChannels * 17 * 17;

  explicit Inception(Variant variant = Variant::fid);

  /// Images [B, 3, H, W] in [0, 1], resized as pytorch-fid does (bilinear, no antialiasing), to
  /// [B, 2048].
  torch::Tensor forward(const torch::Tensor& images) const;

  struct Outputs {
    torch::Tensor pool;     ///< [B, 2048], what forward gives
    torch::Tensor spatial;  ///< [B, 2023] by rows, columns, channels: TensorFlow's order
  };
  /// Inputs [B, 3, 299, 299] by one of the functions below.
  Outputs outputs(const torch::Tensor& input) const;
  /// Images in [0, 1] as pytorch-fid gives them to the network.
  static torch::Tensor pytorch_input(const torch::Tensor& images);
  /// Images of values 0 to 255 as TensorFlow's graph of 2015 treats them: bilinear by pixels'
  /// corners, not antialiased; then (x - 128) / 128.
  static torch::Tensor tensorflow_input(const torch::Tensor& pixels);

  /// Folds all norms into their convolutions (ConvNorm::fold).
  void fold();

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

/// The classifier of FID's network, frozen, for the inception score: `fc.weight` [1008, 2048] and
/// `fc.bias`, as in pytorch-fid's file.
class InceptionHead : public torch::nn::Module {
 public:
  static constexpr int64_t kClasses = 1008;

  InceptionHead();
  /// Features [B, 2048] to the fp64 logarithms of probabilities [B, 1008], without the bias: the
  /// score is defined so by its first program, and all others follow.
  torch::Tensor log_probabilities(const torch::Tensor& pool) const;

 private:
  torch::Tensor weight_;
};

}  // namespace nsvq
