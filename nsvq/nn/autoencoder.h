#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/nn/layers.h"
#include "nsvq/nn/model_config.h"
#include "nsvq/nn/network_form.h"

// Forward declaration, because torch/nn/modules/linear.h is slow to parse.
namespace torch::nn {
class LinearImpl;
}

namespace nsvq {

// Blocks exchange a Residual (nsvq/nn/layers.h): activations [B, C, H, W] and a branch that the
// next norm adds to them. A NetworkForm says what they are made of.

/// Residual block: GroupNorm, SiLU, 3x3 convolution, twice, added to the input. Between different
/// widths a 1x1 convolution of the input is added in its place; with form.shortcut_of_result it is
/// one of the result, and the input is lost, as in MaskGIT's networks.
struct ResBlockImpl : torch::nn::Module {
  ResBlockImpl(int64_t inputs, int64_t outputs, const NetworkForm& form = {});
  Residual forward(Residual input);

 private:
  std::shared_ptr<torch::nn::GroupNormImpl> norm1_, norm2_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::Conv2dImpl> shortcut_;  // 1x1, null if inputs == outputs
  bool shortcut_of_result_;
};

/// Self-attention over all positions with one head, added to the input.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(int64_t channels);
  Residual forward(Residual input);

 private:
  std::shared_ptr<torch::nn::GroupNormImpl> norm_;
  std::shared_ptr<torch::nn::Conv2dImpl> q_, k_, v_, proj_out_;
};

enum class Resample { none, down, up };

struct LevelOptions {
  int64_t inputs, outputs;
  int64_t blocks;
  bool attention;
  Resample resample;
  NetworkForm form = {};
};

/// The layers of one resolution: residual blocks, each followed by attention if `attention` is set,
/// then the resampling to the next resolution.
struct LevelImpl : torch::nn::Module {
  explicit LevelImpl(const LevelOptions& options);
  Residual forward(Residual x);

 private:
  std::vector<std::shared_ptr<ResBlockImpl>> blocks_;
  std::vector<std::shared_ptr<AttentionImpl>> attention_;
  Resample resample_;
  NetworkForm form_;
  std::shared_ptr<torch::nn::Conv2dImpl> resampling_;  // "downsample" or "upsample"
};

/// Residual blocks at the lowest resolution, with attention after the first if `attention` is set.
struct MidImpl : torch::nn::Module {
  MidImpl(int64_t channels, bool attention, int64_t blocks = 2, const NetworkForm& form = {});
  Residual forward(Residual x);

 private:
  std::vector<std::shared_ptr<ResBlockImpl>> blocks_;
  std::shared_ptr<AttentionImpl> attn_1_;
};

/// Mean and standard deviation of each channel over an image's latents, [B, d]. The deviation is
/// the root of the unbiased variance plus 1e-6; one position has a variance of 0.
struct LatentMoments {
  torch::Tensor mean, deviation;
};
LatentMoments moments_of(const torch::Tensor& latents);

/// GroupNorm whose scale and shift of each channel are linear maps of the latents' deviations and
/// means: all of an image's latents change all of its pixels.
struct AdaptiveNormImpl : torch::nn::Module {
  AdaptiveNormImpl(int64_t latent_dim, int64_t channels);
  torch::Tensor forward(const torch::Tensor& x, const LatentMoments& latents);

 private:
  std::shared_ptr<torch::nn::LinearImpl> gamma_, beta_;
};

/// One step of the Haar transform, [B, C, H, W] to [B, 4C, H/2, W/2], for even sides: means of 2x2
/// pixels, then half the differences of the means of their rows, columns and diagonals.
torch::Tensor to_haar(const torch::Tensor& x);
/// Its inverse.
torch::Tensor from_haar(const torch::Tensor& x);

/// Images [B, 3, H, W] to latents [B, latent_dim, H / stride, W / stride].
struct EncoderImpl : torch::nn::Module {
  /// Throws UserError naming the key if an option is out of range.
  explicit EncoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor images);

  bool recompute = false;  ///< activation checkpointing of each level (recomputed in layers.h)

 private:
  int64_t stride_, haar_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::shared_ptr<torch::nn::Conv2dImpl> quant_conv_;  // null but in family taming
  std::vector<std::shared_ptr<LevelImpl>> down_;       // full resolution first
  std::shared_ptr<MidImpl> mid_;
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Encoder);

/// Latents [B, latent_dim, h, w] to images [B, 3, h * stride, w * stride], not clamped.
struct DecoderImpl : torch::nn::Module {
  explicit DecoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor latents);

  bool recompute = false;  ///< activation checkpointing of each level (recomputed in layers.h)

 private:
  int64_t latent_dim_, haar_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::shared_ptr<torch::nn::Conv2dImpl> post_quant_conv_;  // null but in family taming
  std::shared_ptr<MidImpl> mid_;
  std::vector<std::shared_ptr<LevelImpl>>
      up_;  // full resolution first, as in the encoder; applied in reverse
  std::vector<std::shared_ptr<AdaptiveNormImpl>> adaptive_;  // before each of these, or empty
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Decoder);

}  // namespace nsvq
