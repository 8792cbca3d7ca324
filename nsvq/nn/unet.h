#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/core/precision.h"
#include "nsvq/nn/layers.h"
#include "nsvq/settings/option.h"

namespace torch::nn {
class Conv1dImpl;
class EmbeddingImpl;
class LinearImpl;
}  // namespace torch::nn

namespace nsvq {

/// Settings unet.*: the network of latent diffusion. The defaults are the paper's.
struct UnetConfig {
  int64_t width = 256;
  std::vector<int64_t> multipliers = {1, 2, 4};
  int64_t blocks = 2;
  std::vector<int64_t> attention = {0, 1, 2};
  int64_t heads = 4;

  /// Latents per side that become one at the lowest resolution.
  int64_t stride() const { return int64_t{1} << (multipliers.size() - 1); }
};

std::vector<Option> unet_options(UnetConfig& unet);
/// Throws UserError, naming the key, for what no network can be made of.
void check_unet(UnetConfig unet);

/// Times [B] of any type as [B, width] in fp64: cosines of the time at frequencies that fall from 1
/// towards 1/10,000, then sines of the same. The width is even. Runs without a host
/// synchronisation.
torch::Tensor time_embedding(const torch::Tensor& times, int64_t width);

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

/// What the data decide of a U-Net.
struct UnetInputs {
  int64_t channels = 128;  ///< of a latent, in and out
  int64_t labels = 0;      ///< classes that have an embedding; 0: none
};

/// The U-Net of latent diffusion (CompVis' openaimodel.py with plain attention blocks), with its
/// parameter names: its weights load into that one and back. It predicts, for noisy latents and the
/// times of their noise, the noise or whatever it is trained on.
struct UnetImpl : torch::nn::Module {
  UnetImpl(const UnetConfig& config, const UnetInputs& inputs);
  /// Latents [B, C, h, w], whose sides are multiples of the stride, times [B] and, if there are
  /// classes, labels [B] int64 below `labels`. Returns [B, C, h, w] in fp32 at least. Runs under
  /// autocast to `precision`, without a host synchronisation.
  torch::Tensor forward(const torch::Tensor& latents, const torch::Tensor& times,
                        const torch::Tensor& labels = {});

  Precision precision = Precision::fp32;

 private:
  /// A part of the way down, one of the two.
  struct Down {
    std::shared_ptr<UnetStageImpl> stage;
    std::shared_ptr<UnetDownsampleImpl> downsample;
  };
  int64_t add_down(torch::nn::Module& list, const UnetConfig& config,
                   std::vector<int64_t>& skip_widths);
  void add_up(torch::nn::Module& list, const UnetConfig& config, int64_t width,
              std::vector<int64_t> skip_widths);
  void check(const torch::Tensor& latents, const torch::Tensor& times,
             const torch::Tensor& labels) const;
  torch::Tensor condition(const torch::Tensor& times, const torch::Tensor& labels);

  UnetInputs inputs_;
  int64_t width_, stride_;
  std::shared_ptr<torch::nn::LinearImpl> time1_, time2_;
  std::shared_ptr<torch::nn::EmbeddingImpl> label_emb_;  ///< null without classes
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::vector<Down> down_;
  std::shared_ptr<UnetMiddleImpl> middle_;
  std::vector<std::shared_ptr<UnetStageImpl>> up_;
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Unet);

}  // namespace nsvq
