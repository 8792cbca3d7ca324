#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "nsvq/nn/layers.h"

namespace nsvq {

// Between blocks goes an image and what is to be added to it, for the next norm to do.

/// Norm, swish, 3x3, norm, swish, 3x3, added to the input. Its convolutions have no bias.
struct ResBlockImpl : torch::nn::Module {
  ResBlockImpl(int64_t inputs, int64_t outputs);
  Residual forward(const Residual& input);

 private:
  std::shared_ptr<torch::nn::GroupNormImpl> norm1_, norm2_;
  std::shared_ptr<torch::nn::Conv2dImpl> conv1_, conv2_;
  std::shared_ptr<torch::nn::Conv2dImpl> shortcut_;  // only where the channels change
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

/// What happens at one resolution: residual blocks, attention after each if asked for, and the way
/// to the next resolution.
struct LevelImpl : torch::nn::Module {
  explicit LevelImpl(const LevelOptions& options);
  Residual forward(Residual x);

 private:
  std::vector<std::shared_ptr<ResBlockImpl>> blocks_;
  std::vector<std::shared_ptr<AttentionImpl>> attention_;
  std::shared_ptr<torch::nn::Conv2dImpl> downsample_, upsample_;
};

/// Two residual blocks at the lowest resolution, with attention between them if asked for.
struct MidImpl : torch::nn::Module {
  MidImpl(int64_t channels, bool attention);
  Residual forward(Residual x);

 private:
  std::shared_ptr<ResBlockImpl> block_1_, block_2_;
  std::shared_ptr<AttentionImpl> attn_1_;
};

}  // namespace nsvq
