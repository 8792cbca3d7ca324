#include "nsvq/nn/autoencoder.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>

#include "nsvq/nn/layers.h"
#include "nsvq/ops/images/depth_to_space.h"

namespace nsvq {

namespace {

/// Doubles height and width: a convolution to 4C channels, then depth-to-space.
torch::Tensor upsampled(torch::nn::Conv2dImpl& conv, const torch::Tensor& x) {
  if (defers_bias(conv, x)) return depth_to_space(without_bias(conv, x), conv.bias);
  return depth_to_space(conv.forward(x));
}

}  // namespace

// Parameter names are those of taming-transformers.
ResBlockImpl::ResBlockImpl(int64_t inputs, int64_t outputs) {
  norm1_ = register_module("norm1", make_norm(inputs));
  conv1_ =
      register_module("conv1", make_conv({.inputs = inputs, .outputs = outputs, .bias = false}));
  norm2_ = register_module("norm2", make_norm(outputs));
  conv2_ =
      register_module("conv2", make_conv({.inputs = outputs, .outputs = outputs, .bias = false}));
  if (inputs == outputs) return;
  shortcut_ = register_module(
      "nin_shortcut",
      make_conv({.inputs = inputs, .outputs = outputs, .kernel = 1, .bias = false}));
}

Residual ResBlockImpl::forward(const Residual& input) {
  const auto [x, normalised] = add_and_normalise(*norm1_, input, Activation::silu);
  auto h = conv1_->forward(normalised);
  h = conv2_->forward(normalise(*norm2_, h, Activation::silu));
  return {shortcut_ ? shortcut_->forward(x) : x, h};
}

AttentionImpl::AttentionImpl(int64_t channels) {
  const ConvShape shape{.inputs = channels, .outputs = channels, .kernel = 1};
  norm_ = register_module("norm", make_norm(channels));
  q_ = register_module("q", make_conv(shape));
  k_ = register_module("k", make_conv(shape));
  v_ = register_module("v", make_conv(shape));
  proj_out_ = register_module("proj_out", make_conv(shape));
}

Residual AttentionImpl::forward(const Residual& input) {
  const auto normalised = add_and_normalise(*norm_, input, Activation::none);
  const auto& x = normalised.sum;
  const auto tokens = [&normalised](torch::nn::Conv2dImpl& conv) {
    return conv.forward(normalised.output)
        .flatten(2)
        .transpose(1, 2)
        .unsqueeze(1);  // [B, 1 head, HW, C]
  };
  const auto mixed = at::scaled_dot_product_attention(tokens(*q_), tokens(*k_), tokens(*v_));
  const auto image = mixed.squeeze(1).transpose(1, 2).unflatten(2, {x.size(2), x.size(3)});
  return {x, proj_out_->forward(image)};
}

LevelImpl::LevelImpl(const LevelOptions& options) {
  const int64_t width = options.outputs;
  const auto blocks = register_module("block", torch::nn::ModuleList());
  for (int64_t i = 0; i < options.blocks; ++i) {
    blocks_.push_back(std::make_shared<ResBlockImpl>(i == 0 ? options.inputs : width, width));
    blocks->push_back(blocks_.back());
  }
  if (options.attention) {
    const auto attention = register_module("attn", torch::nn::ModuleList());
    for (int64_t i = 0; i < options.blocks; ++i) {
      attention_.push_back(std::make_shared<AttentionImpl>(width));
      attention->push_back(attention_.back());
    }
  }
  if (options.resample == Resample::down) {
    downsample_ =
        register_module("downsample", make_conv({.inputs = width, .outputs = width, .stride = 2}));
  } else if (options.resample == Resample::up) {
    upsample_ = register_module("upsample", make_conv({.inputs = width, .outputs = 4 * width}));
  }
}

Residual LevelImpl::forward(Residual x) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(x);
    if (!attention_.empty()) x = attention_[i]->forward(x);
  }
  if (downsample_) return {downsample_->forward(x.sum()), {}};
  if (upsample_) return {upsampled(*upsample_, x.sum()), {}};
  return x;
}

MidImpl::MidImpl(int64_t channels, bool attention) {
  block_1_ = register_module("block_1", std::make_shared<ResBlockImpl>(channels, channels));
  if (attention) attn_1_ = register_module("attn_1", std::make_shared<AttentionImpl>(channels));
  block_2_ = register_module("block_2", std::make_shared<ResBlockImpl>(channels, channels));
}

Residual MidImpl::forward(Residual x) {
  x = block_1_->forward(x);
  if (attn_1_) x = attn_1_->forward(x);
  return block_2_->forward(x);
}

namespace {

/// Channels of each level, full resolution first.
std::vector<int64_t> level_widths(const ModelConfig& options) {
  check_model(options);
  std::vector<int64_t> widths;
  for (const int64_t multiplier : options.multipliers) widths.push_back(options.width * multiplier);
  return widths;
}

bool has_attention(const ModelConfig& options, size_t level) {
  const auto& levels = options.attention;
  return std::find(levels.begin(), levels.end(), static_cast<int64_t>(level)) != levels.end();
}

Residual through_level(LevelImpl& level, const Residual& x, bool recompute) {
  if (!recompute) return level.forward(x);
  const auto part = [&level](const torch::Tensor& input) {
    return level.forward({input, {}}).sum();
  };
  return {recomputed(part, x.sum()), {}};
}

}  // namespace

EncoderImpl::EncoderImpl(const ModelConfig& options) {
  const auto widths = level_widths(options);
  stride_ = options.stride();
  conv_in_ =
      register_module("conv_in", make_conv({.inputs = 3, .outputs = options.width, .bias = false}));
  const auto down = register_module("down", torch::nn::ModuleList());
  for (size_t i = 0; i < widths.size(); ++i) {
    down_.push_back(std::make_shared<LevelImpl>(
        LevelOptions{.inputs = i == 0 ? options.width : widths[i - 1],
                     .outputs = widths[i],
                     .blocks = options.blocks,
                     .attention = has_attention(options, i),
                     .resample = i + 1 < widths.size() ? Resample::down : Resample::none}));
    down->push_back(down_.back());
  }
  mid_ = register_module("mid", std::make_shared<MidImpl>(widths.back(), options.mid_attention));
  norm_out_ = register_module("norm_out", make_norm(widths.back()));
  conv_out_ = register_module(
      "conv_out", make_conv({.inputs = widths.back(), .outputs = options.latent_dim, .kernel = 1}));
}

torch::Tensor EncoderImpl::forward(torch::Tensor images) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, "encoder: needs images [B, 3, H, W], got ",
              images.sizes());
  const int64_t height = images.size(2), width = images.size(3);
  TORCH_CHECK(height > 0 && width > 0 && height % stride_ == 0 && width % stride_ == 0,
              "encoder: images of ", height, "x", width,
              " are not a multiple of the stride, which is ", stride_);
  Residual x{conv_in_->forward(images), {}};
  for (const auto& level : down_) x = through_level(*level, x, recompute);
  x = mid_->forward(x);
  return conv_out_->forward(add_and_normalise(*norm_out_, x, Activation::silu).output);
}

DecoderImpl::DecoderImpl(const ModelConfig& options) : latent_dim_(options.latent_dim) {
  const auto widths = level_widths(options);
  const size_t last = widths.size() - 1;
  conv_in_ =
      register_module("conv_in", make_conv({.inputs = latent_dim_, .outputs = widths[last]}));
  mid_ = register_module("mid", std::make_shared<MidImpl>(widths[last], options.mid_attention));
  const auto up = register_module("up", torch::nn::ModuleList());
  for (size_t i = 0; i < widths.size(); ++i) {
    up_.push_back(std::make_shared<LevelImpl>(
        LevelOptions{.inputs = widths[std::min(i + 1, last)],
                     .outputs = widths[i],
                     .blocks = options.blocks,
                     .attention = has_attention(options, i),
                     .resample = i > 0 ? Resample::up : Resample::none}));
    up->push_back(up_.back());
  }
  norm_out_ = register_module("norm_out", make_norm(widths[0]));
  conv_out_ = register_module("conv_out", make_conv({.inputs = widths[0], .outputs = 3}));
}

torch::Tensor DecoderImpl::forward(torch::Tensor latents) {
  TORCH_CHECK(latents.dim() == 4 && latents.size(1) == latent_dim_, "decoder: needs latents [B, ",
              latent_dim_, ", h, w], got ", latents.sizes());
  // The strides of a [B, C, 1, 1] tensor match every memory format, and convolutions choose their
  // algorithm by strides. Made contiguous, so that equal codes decode to equal bits.
  if (latents.size(2) * latents.size(3) == 1) latents = latents.clone(at::MemoryFormat::Contiguous);
  auto x = mid_->forward({conv_in_->forward(latents), {}});
  for (auto level = up_.rbegin(); level != up_.rend(); ++level) {
    x = through_level(**level, x, recompute);
  }
  return conv_out_->forward(add_and_normalise(*norm_out_, x, Activation::silu).output);
}

}  // namespace nsvq
