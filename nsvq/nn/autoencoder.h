#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "nsvq/nn/layers.h"
#include "nsvq/nn/model_config.h"

namespace nsvq {

struct LevelImpl;
struct MidImpl;

/// Images [B, 3, H, W] to latents [B, latent_dim, H / stride, W / stride].
struct EncoderImpl : torch::nn::Module {
  /// Throws UserError naming the key if an option is out of range.
  explicit EncoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor images);

  bool recompute = false;  ///< activation checkpointing of each level (nsvq/nn/recompute.h)

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

  bool recompute = false;  ///< activation checkpointing of each level (nsvq/nn/recompute.h)

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
