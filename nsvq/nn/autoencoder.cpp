#include "nsvq/nn/autoencoder.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>

#include "nsvq/nn/blocks.h"
#include "nsvq/nn/recompute.h"

namespace nsvq {

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
