#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/nn/layers.h"
#include "nsvq/nn/model_config.h"

namespace nsvq {

// Blocks exchange a Residual (nsvq/nn/layers.h): activations [B, C, H, W] and a branch that the
// next norm adds to them.

/// Residual block: GroupNorm, SiLU, 3x3 convolution, twice, added to the input. Its convolutions
/// have no bias.
struct ResBlockImpl : torch::nn::Module {
  ResBlockImpl(int64_t inputs, int64_t outputs);
  Residual forward(const Residual& input);

 private:
  std::shared_ptr<torch::nn::GroupNormImpl> norm1_, norm2_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::Conv2dImpl> shortcut_;  // 1x1, null if inputs == outputs
};

/// Self-attention over all positions with one head, added to the input.
struct AttentionImpl : torch::nn::Module {
  explicit AttentionImpl(int64_t channels);
  Residual forward(const Residual& input);

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
};

/// The layers of one resolution: residual blocks, each followed by attention if `attention` is set,
/// then the resampling to the next resolution.
struct LevelImpl : torch::nn::Module {
  explicit LevelImpl(const LevelOptions& options);
  Residual forward(Residual x);

 private:
  std::vector<std::shared_ptr<ResBlockImpl>> blocks_;
  std::vector<std::shared_ptr<AttentionImpl>> attention_;
  std::shared_ptr<torch::nn::Conv2dImpl> downsample_, upsample_;
};

/// Two residual blocks at the lowest resolution, with attention between them if `attention` is set.
struct MidImpl : torch::nn::Module {
  MidImpl(int64_t channels, bool attention);
  Residual forward(Residual x);

 private:
  std::shared_ptr<ResBlockImpl> block_1_, block_2_;
  std::shared_ptr<AttentionImpl> attn_1_;
};

struct LevelImpl;
struct MidImpl;

/// Images [B, 3, H, W] to latents [B, latent_dim, H / stride, W / stride].
struct EncoderImpl : torch::nn::Module {
  /// Throws UserError naming the key if an option is out of range.
  explicit EncoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor images);

  bool recompute = false;  ///< activation checkpointing of each level (recomputed in layers.h)

 private:
  int64_t stride_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::vector<std::shared_ptr<LevelImpl>> down_;  // full resolution first
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
  int64_t latent_dim_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::shared_ptr<MidImpl> mid_;
  std::vector<std::shared_ptr<LevelImpl>>
      up_;  // full resolution first, as in the encoder; applied in reverse
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Decoder);

}  // namespace nsvq
