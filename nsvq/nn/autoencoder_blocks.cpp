#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "nsvq/nn/autoencoder.h"
#include "nsvq/nn/layers.h"
#include "nsvq/ops/images/depth_to_space.h"

namespace nsvq {

// Parameter names are those of taming-transformers.
ResBlockImpl::ResBlockImpl(int64_t inputs, int64_t outputs, const NetworkForm& form)
    : shortcut_of_result_(form.shortcut_of_result) {
  const auto conv = [&](int64_t from, int64_t kernel) {
    return make_conv({.inputs = from, .outputs = outputs, .kernel = kernel, .bias = form.biases});
  };
  norm1_ = register_module("norm1", make_norm(inputs));
  conv1_ = register_module("conv1", conv(inputs, 3));
  norm2_ = register_module("norm2", make_norm(outputs));
  conv2_ = register_module("conv2", conv(outputs, 3));
  if (inputs == outputs) return;
  shortcut_ =
      register_module("nin_shortcut", conv(shortcut_of_result_ ? outputs : inputs, /*kernel=*/1));
}

Residual ResBlockImpl::forward(Residual input) {
  const auto left_over = shortcut_ ? Offset::added : Offset::left;
  auto [x, normalised, offset] =
      add_and_normalise(*norm1_, std::move(input), Activation::silu, left_over);
  auto hidden = convolved(*conv1_, normalised);
  normalised.reset();  // frees memory that the next norm takes
  const auto inner = normalise(*norm2_, std::move(hidden), Activation::silu);
  if (!shortcut_ || !shortcut_of_result_) {
    auto output = with_branch(x, shortcut_.get(), *conv2_, inner);
    if (offset.defined()) {
      output.offset = output.offset.defined() ? output.offset + offset : offset;
    }
    return output;
  }
  const auto result = conv2_->forward(inner);
  return with_branch(result, nullptr, *shortcut_, result);
}

AttentionImpl::AttentionImpl(int64_t channels) {
  const ConvShape shape{.inputs = channels, .outputs = channels, .kernel = 1};
  norm_ = register_module("norm", make_norm(channels));
  q_ = register_module("q", make_conv(shape));
  k_ = register_module("k", make_conv(shape));
  v_ = register_module("v", make_conv(shape));
  proj_out_ = register_module("proj_out", make_conv(shape));
}

Residual AttentionImpl::forward(Residual input) {
  const auto normalised = add_and_normalise(*norm_, std::move(input), Activation::none);
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

namespace {

/// A level's last layer; null where it has none.
std::shared_ptr<torch::nn::Conv2dImpl> make_resampling(const LevelOptions& options) {
  const int64_t width = options.outputs;
  const auto& form = options.form;
  if (options.resample == Resample::down && form.halving != Halving::means) {
    return make_conv({.inputs = width,
                      .outputs = width,
                      .stride = 2,
                      .padded = form.halving == Halving::padded_around});
  }
  if (options.resample == Resample::up) {
    const bool to_space = form.doubling == Doubling::depth_to_space;
    return make_conv({.inputs = width, .outputs = to_space ? 4 * width : width});
  }
  return nullptr;
}

Residual halve(Halving halving, torch::nn::Conv2dImpl* conv, const Residual& residual) {
  switch (halving) {
    case Halving::means:
      return {at::avg_pool2d(residual.sum(), 2), {}};
    case Halving::padded_after:
      return convolved(*conv, padded_after(residual));
    case Halving::padded_around:
      break;
  }
  return {conv->forward(residual.sum()), {}};
}

Residual double_by(Doubling doubling, torch::nn::Conv2dImpl& conv, const Residual& residual) {
  if (doubling == Doubling::nearest) return convolved(conv, doubled(residual));
  const auto x = residual.sum();
  if (defers_bias(conv, x)) return {depth_to_space(without_bias(conv, x), conv.bias), {}};
  return {depth_to_space(conv.forward(x)), {}};
}

}  // namespace

LevelImpl::LevelImpl(const LevelOptions& options)
    : resample_(options.resample), form_(options.form) {
  const int64_t width = options.outputs;
  const auto blocks = register_module("block", torch::nn::ModuleList());
  for (int64_t i = 0; i < options.blocks; ++i) {
    blocks_.push_back(
        std::make_shared<ResBlockImpl>(i == 0 ? options.inputs : width, width, form_));
    blocks->push_back(blocks_.back());
  }
  if (options.attention) {
    const auto attention = register_module("attn", torch::nn::ModuleList());
    for (int64_t i = 0; i < options.blocks; ++i) {
      attention_.push_back(std::make_shared<AttentionImpl>(width));
      attention->push_back(attention_.back());
    }
  }
  if (const auto conv = make_resampling(options)) {
    resampling_ = register_module(resample_ == Resample::down ? "downsample" : "upsample", conv);
  }
}

Residual LevelImpl::forward(Residual x) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(std::move(x));
    if (!attention_.empty()) x = attention_[i]->forward(std::move(x));
  }
  switch (resample_) {
    case Resample::down:
      return halve(form_.halving, resampling_.get(), x);
    case Resample::up:
      return double_by(form_.doubling, *resampling_, x);
    case Resample::none:
      break;
  }
  return x;
}

MidImpl::MidImpl(int64_t channels, bool attention, int64_t blocks, const NetworkForm& form) {
  for (int64_t i = 1; i <= blocks; ++i) {
    blocks_.push_back(register_module("block_" + std::to_string(i),
                                      std::make_shared<ResBlockImpl>(channels, channels, form)));
    if (i > 1 || !attention) continue;
    attn_1_ = register_module("attn_1", std::make_shared<AttentionImpl>(channels));
  }
}

Residual MidImpl::forward(Residual x) {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(std::move(x));
    if (i == 0 && attn_1_) x = attn_1_->forward(std::move(x));
  }
  return x;
}

torch::Tensor to_haar(const torch::Tensor& x) {
  const auto pairs = [](const torch::Tensor& of, int64_t dim) {
    return std::pair{of.slice(dim, 0, std::nullopt, 2), of.slice(dim, 1, std::nullopt, 2)};
  };
  const auto [left, right] = pairs(x, 3);
  const auto [low_top, low_bottom] = pairs(left + right, 2);
  const auto [high_top, high_bottom] = pairs(left - right, 2);
  return at::cat({low_top + low_bottom, low_top - low_bottom, high_top + high_bottom,
                  high_top - high_bottom},
                 1)
             .contiguous(x.suggest_memory_format()) /
         4;
}

torch::Tensor from_haar(const torch::Tensor& x) {
  const auto parts = x.chunk(4, 1);
  const auto joined = [](const torch::Tensor& first, const torch::Tensor& second, int64_t dim) {
    return at::stack({first, second}, dim + 1).flatten(dim, dim + 1);
  };
  const auto low = joined(parts[0] + parts[1], parts[0] - parts[1], 2);
  const auto high = joined(parts[2] + parts[3], parts[2] - parts[3], 2);
  return joined(low + high, low - high, 3).contiguous(x.suggest_memory_format());
}

LatentMoments moments_of(const torch::Tensor& latents) {
  const auto positions = latents.flatten(2);
  // torch's unbiased variance of one number is NaN.
  const std::optional<at::Scalar> correction = positions.size(2) > 1 ? 1 : 0;
  const auto variance = at::var(positions, at::IntArrayRef{2}, correction);
  return {positions.mean(2), (variance + kNormEps).sqrt()};
}

AdaptiveNormImpl::AdaptiveNormImpl(int64_t latent_dim, int64_t channels) {
  const auto linear = [&] { return std::make_shared<torch::nn::LinearImpl>(latent_dim, channels); };
  gamma_ = register_module("gamma", linear());
  beta_ = register_module("beta", linear());
}

torch::Tensor AdaptiveNormImpl::forward(const torch::Tensor& x, const LatentMoments& latents) {
  const auto by_channel = [&](torch::nn::LinearImpl& linear, const torch::Tensor& moments) {
    return linear.forward(moments).to(x.scalar_type()).unsqueeze(2).unsqueeze(3);
  };
  return normalise_without_weights(x) * by_channel(*gamma_, latents.deviation) +
         by_channel(*beta_, latents.mean);
}

}  // namespace nsvq
