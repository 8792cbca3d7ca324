#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "nsvq/nn/layers.h"

namespace torch::nn {
class Conv1dImpl;
class LinearImpl;
}  // namespace torch::nn

namespace nsvq {

// Blocks of the U-Net (unet.h), with the parameter names of CompVis' latent-diffusion. They take a
// Residual (layers.h) whose sum the first norm forms, and leave that sum in its place: skip
// connections need it once more.

/// Residual block: GroupNorm, SiLU, 3x3 convolution, twice, added to the input; a linear function
/// of the time is added after the first convolution. The second convolution starts at zero.
struct UnetResBlockImpl : torch::nn::Module {
  struct Shape {
    int64_t inputs, outputs;
    int64_t condition;  ///< channels of the time's embedding
  };
  explicit UnetResBlockImpl(const Shape& shape);
  /// `condition` [B, shape.condition]: SiLU of the embedding.
  Residual forward(Residual& input, const torch::Tensor& condition);

 private:
  std::shared_ptr<torch::nn::GroupNormImpl> norm1_, norm2_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::LinearImpl> shift_;
  std::shared_ptr<torch::nn::Conv2dImpl> shortcut_;  ///< 1x1, null if inputs == outputs
};

/// Self-attention over all positions with several heads, added to the input. The projection of its
/// result starts at zero.
struct UnetAttentionImpl : torch::nn::Module {
  UnetAttentionImpl(int64_t channels, int64_t heads);
  Residual forward(Residual& input);

 private:
  int64_t heads_;
  std::shared_ptr<torch::nn::GroupNormImpl> norm_;
  std::shared_ptr<torch::nn::Conv1dImpl> qkv_, proj_out_;  ///< kernels of size 1: linear layers
};

/// A residual block, then attention and doubling of the resolution where the stage has them.
struct UnetStageImpl : torch::nn::Module {
  struct Shape {
    UnetResBlockImpl::Shape block;
    int64_t heads = 0;  ///< 0: no attention
    bool upsample = false;
  };
  explicit UnetStageImpl(const Shape& shape);
  Residual forward(Residual& input, const torch::Tensor& condition);

 private:
  std::shared_ptr<UnetResBlockImpl> block_;
  std::shared_ptr<UnetAttentionImpl> attention_;
  std::shared_ptr<torch::nn::Conv2dImpl> upsample_;  ///< after each pixel became four
};

/// Two residual blocks with attention between them.
struct UnetMiddleImpl : torch::nn::Module {
  UnetMiddleImpl(int64_t channels, int64_t condition, int64_t heads);
  Residual forward(Residual& input, const torch::Tensor& condition);

 private:
  std::shared_ptr<UnetResBlockImpl> first_, last_;
  std::shared_ptr<UnetAttentionImpl> attention_;
};

/// Halves the resolution by a convolution of stride 2.
struct UnetDownsampleImpl : torch::nn::Module {
  explicit UnetDownsampleImpl(int64_t channels);
  Residual forward(Residual& input);

 private:
  std::shared_ptr<torch::nn::Conv2dImpl> op_;
};

/// GroupNorm as the U-Net has it.
std::shared_ptr<torch::nn::GroupNormImpl> make_unet_norm(int64_t channels);

/// A convolution that starts at zero.
std::shared_ptr<torch::nn::Conv2dImpl> make_zero_conv(const ConvShape& shape);

/// A module for others below a name that files have: "in_layers" with "0" and "2" in it.
std::shared_ptr<torch::nn::Module> add_group(torch::nn::Module& parent, const std::string& name);

}  // namespace nsvq
