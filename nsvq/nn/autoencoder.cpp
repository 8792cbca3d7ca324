#include "nsvq/nn/autoencoder.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <utility>

#include "nsvq/core/precision.h"
#include "nsvq/nn/layers.h"

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

std::shared_ptr<MidImpl> make_mid(const ModelConfig& options, int64_t channels,
                                  const NetworkForm& form) {
  const int64_t blocks = form.middle_as_levels ? options.blocks : 2;
  return std::make_shared<MidImpl>(channels, options.mid_attention, blocks, form);
}

std::shared_ptr<torch::nn::Conv2dImpl> make_latent_conv(const ModelConfig& options, int64_t inputs,
                                                        int64_t outputs) {
  return make_conv({.inputs = inputs, .outputs = outputs, .kernel = options.latent_kernel});
}

Residual through_level(LevelImpl& level, Residual x, bool recompute) {
  if (!recompute) return level.forward(std::move(x));
  const auto part = [&level](const torch::Tensor& input) {
    return level.forward({input, {}}).sum();
  };
  return {recomputed(part, x.sum()), {}};
}

}  // namespace

EncoderImpl::EncoderImpl(const ModelConfig& options) {
  const auto widths = level_widths(options);
  const auto& form = network_form(options.family);
  stride_ = options.stride();
  haar_ = options.haar;
  const auto halving_levels = static_cast<size_t>(options.halving_levels());
  conv_in_ = register_module("conv_in", make_conv({.inputs = options.picture_channels(),
                                                   .outputs = options.width,
                                                   .bias = form.biases}));
  const auto down = register_module("down", torch::nn::ModuleList());
  for (size_t i = 0; i < widths.size(); ++i) {
    down_.push_back(std::make_shared<LevelImpl>(
        LevelOptions{.inputs = i == 0 ? options.width : widths[i - 1],
                     .outputs = widths[i],
                     .blocks = options.blocks,
                     .attention = has_attention(options, i),
                     .resample = i < halving_levels ? Resample::down : Resample::none,
                     .form = form}));
    down->push_back(down_.back());
  }
  mid_ = register_module("mid", make_mid(options, widths.back(), form));
  norm_out_ = register_module("norm_out", make_norm(widths.back()));
  conv_out_ = register_module("conv_out", make_conv({.inputs = widths.back(),
                                                     .outputs = options.inner_channels(),
                                                     .kernel = form.encoder_out_kernel}));
  if (!form.latent_convolutions) return;
  quant_conv_ = register_module(
      "quant_conv", make_latent_conv(options, options.inner_channels(), options.latent_dim));
}

torch::Tensor EncoderImpl::forward(torch::Tensor images) {
  TORCH_CHECK(images.dim() == 4 && images.size(1) == 3, "encoder: needs images [B, 3, H, W], got ",
              images.sizes());
  const int64_t height = images.size(2), width = images.size(3);
  TORCH_CHECK(height > 0 && width > 0 && height % stride_ == 0 && width % stride_ == 0,
              "encoder: images of ", height, "x", width,
              " are not a multiple of the stride, which is ", stride_);
  for (int64_t i = 0; i < haar_; ++i) images = to_haar(images);
  auto x = convolved(*conv_in_, images);
  for (const auto& level : down_) x = through_level(*level, std::move(x), recompute);
  x = mid_->forward(std::move(x));
  const auto latents = conv_out_->forward(normalise(*norm_out_, std::move(x), Activation::silu));
  return quant_conv_ ? quant_conv_->forward(latents) : latents;
}

DecoderImpl::DecoderImpl(const ModelConfig& options)
    : latent_dim_(options.latent_dim), haar_(options.haar) {
  const auto widths = level_widths(options);
  const auto& form = network_form(options.family);
  const size_t last = widths.size() - 1;
  const size_t first_doubling = widths.size() - static_cast<size_t>(options.halving_levels());
  if (form.latent_convolutions) {
    post_quant_conv_ = register_module(
        "post_quant_conv", make_latent_conv(options, latent_dim_, options.inner_channels()));
  }
  conv_in_ = register_module(
      "conv_in", make_conv({.inputs = options.inner_channels(), .outputs = widths[last]}));
  mid_ = register_module("mid", make_mid(options, widths[last], form));
  const auto up = register_module("up", torch::nn::ModuleList());
  for (size_t i = 0; i < widths.size(); ++i) {
    up_.push_back(std::make_shared<LevelImpl>(
        LevelOptions{.inputs = widths[std::min(i + 1, last)],
                     .outputs = widths[i],
                     .blocks = options.blocks + form.more_decoder_blocks,
                     .attention = has_attention(options, i),
                     .resample = i >= first_doubling ? Resample::up : Resample::none,
                     .form = form}));
    up->push_back(up_.back());
  }
  if (form.adaptive_norms) {
    const auto adaptive = register_module("adaptive", torch::nn::ModuleList());
    for (size_t i = 0; i < widths.size(); ++i) {
      adaptive_.push_back(
          std::make_shared<AdaptiveNormImpl>(latent_dim_, widths[std::min(i + 1, last)]));
      adaptive->push_back(adaptive_.back());
    }
  }
  norm_out_ = register_module("norm_out", make_norm(widths[0]));
  conv_out_ = register_module(
      "conv_out", make_conv({.inputs = widths[0], .outputs = options.picture_channels()}));
}

torch::Tensor DecoderImpl::forward(torch::Tensor latents) {
  TORCH_CHECK(latents.dim() == 4 && latents.size(1) == latent_dim_, "decoder: needs latents [B, ",
              latent_dim_, ", h, w], got ", latents.sizes());
  // The strides of a [B, C, 1, 1] tensor match every memory format, and convolutions choose their
  // algorithm by strides. Made contiguous, so that equal codes decode to equal bits.
  if (latents.size(2) * latents.size(3) == 1) latents = latents.clone(at::MemoryFormat::Contiguous);
  const auto moments = adaptive_.empty() ? LatentMoments{} : moments_of(latents);
  const auto inner = post_quant_conv_ ? post_quant_conv_->forward(latents) : latents;
  auto x = mid_->forward({conv_in_->forward(inner), {}});
  for (size_t i = up_.size(); i-- > 0;) {
    if (!adaptive_.empty()) x = {adaptive_[i]->forward(x.sum(), moments), {}};
    x = through_level(*up_[i], std::move(x), recompute);
  }
  auto images = conv_out_->forward(normalise(*norm_out_, std::move(x), Activation::silu));
  if (haar_ > 0) images = at_least_fp32(images);
  for (int64_t i = 0; i < haar_; ++i) images = from_haar(images);
  return images;
}

}  // namespace nsvq
