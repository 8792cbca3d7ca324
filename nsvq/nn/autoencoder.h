#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <memory>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/nn/layers.h"

namespace nsvq {

struct LevelImpl;
struct MidImpl;

/// Images [B, 3, H, W] to latents [B, latent_dim, H / stride, W / stride].
struct EncoderImpl : torch::nn::Module {
  /// Throws UserError naming the key for options that no model can have.
  explicit EncoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor images);

  bool recompute = false;  ///< levels keep their input alone (nsvq/nn/recompute.h)

 private:
  int64_t stride_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::vector<std::shared_ptr<LevelImpl>> down_;  // from full resolution down
  std::shared_ptr<MidImpl> mid_;
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Encoder);

/// Latents [B, latent_dim, h, w] to images [B, 3, h * stride, w * stride], not clamped.
struct DecoderImpl : torch::nn::Module {
  explicit DecoderImpl(const ModelConfig& options);
  torch::Tensor forward(torch::Tensor latents);

  bool recompute = false;  ///< levels keep their input alone (nsvq/nn/recompute.h)

 private:
  int64_t latent_dim_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv_in_, conv_out_;
  std::shared_ptr<MidImpl> mid_;
  std::vector<std::shared_ptr<LevelImpl>>
      up_;  // by level as in the encoder: the last is applied first
  std::shared_ptr<torch::nn::GroupNormImpl> norm_out_;
};
TORCH_MODULE(Decoder);

}  // namespace nsvq
