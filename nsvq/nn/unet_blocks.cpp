#include "nsvq/nn/unet.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <string>

#include "nsvq/core/precision.h"

namespace nsvq {

torch::Tensor time_embedding(const torch::Tensor& times, int64_t width) {
  TORCH_CHECK(times.dim() == 1, "time_embedding: times must be [B], but they are ", times.sizes());
  TORCH_CHECK(width > 0 && width % 2 == 0, "time_embedding: the width must be even, but it is ",
              width);
  // fp32 angles of times near 1,000 would be off by 3e-5.
  const auto wide = times.options().dtype(at::kDouble);
  const int64_t waves = width / 2;
  const auto frequencies =
      at::exp(at::arange(waves, wide) * (-std::log(1e4) / static_cast<double>(waves)));
  const auto angles = times.to(at::kDouble).unsqueeze(1) * frequencies;
  return at::cat({angles.cos(), angles.sin()}, 1);
}

namespace {

template <typename Layer>
std::shared_ptr<Layer> zeroed(std::shared_ptr<Layer> layer) {
  torch::nn::init::zeros_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

/// conv(x) + shift [B, C] at every position. A bias that PyTorch would add in a pass of its own
/// goes with the shift.
torch::Tensor shifted(torch::nn::Conv2dImpl& conv, const torch::Tensor& x, torch::Tensor shift) {
  torch::Tensor y;
  if (defers_bias(conv, x)) {
    y = without_bias(conv, x);
    shift = shift + conv.bias;
  } else {
    y = conv.forward(x);
  }
  return y + shift.to(y.scalar_type()).unsqueeze(2).unsqueeze(3);
}

/// The sum of a residual, which from then on is all of it.
const torch::Tensor& settle(Residual& residual) {
  residual = {residual.sum(), {}};
  return residual.x;
}

Normalised settle_and_normalise(torch::nn::GroupNormImpl& norm, Residual& input,
                                Activation activation) {
  const auto normalised = add_and_normalise(norm, input, activation);
  input = {normalised.sum, {}};
  return normalised;
}

/// A convolution of kernel size 1 on tokens [B, T, C].
torch::Tensor on_tokens(const torch::nn::Conv1dImpl& conv, const torch::Tensor& tokens) {
  return at::linear(tokens, autocast_weight(conv.weight).squeeze(2), conv.bias);
}

std::shared_ptr<torch::nn::Conv1dImpl> make_token_layer(int64_t inputs, int64_t outputs) {
  return std::make_shared<torch::nn::Conv1dImpl>(torch::nn::Conv1dOptions(inputs, outputs, 1));
}

}  // namespace

std::shared_ptr<torch::nn::GroupNormImpl> make_unet_norm(int64_t channels) {
  return make_norm(channels, 1e-5);
}

std::shared_ptr<torch::nn::Conv2dImpl> make_zero_conv(const ConvShape& shape) {
  return zeroed(make_conv(shape));
}

std::shared_ptr<torch::nn::Module> add_group(torch::nn::Module& parent, const std::string& name) {
  return parent.register_module(name, std::make_shared<torch::nn::Module>(name));
}

UnetResBlockImpl::UnetResBlockImpl(const Shape& shape) {
  const auto [inputs, outputs, condition] = shape;
  const auto in = add_group(*this, "in_layers"), embedding = add_group(*this, "emb_layers"),
             out = add_group(*this, "out_layers");
  norm1_ = in->register_module("0", make_unet_norm(inputs));
  conv1_ = in->register_module("2", make_conv({.inputs = inputs, .outputs = outputs}));
  shift_ =
      embedding->register_module("1", std::make_shared<torch::nn::LinearImpl>(condition, outputs));
  norm2_ = out->register_module("0", make_unet_norm(outputs));
  conv2_ = out->register_module("3", make_zero_conv({.inputs = outputs, .outputs = outputs}));
  if (inputs == outputs) return;
  shortcut_ = register_module("skip_connection",
                              make_conv({.inputs = inputs, .outputs = outputs, .kernel = 1}));
}

Residual UnetResBlockImpl::forward(Residual& input, const torch::Tensor& condition) {
  const auto start = settle_and_normalise(*norm1_, input, Activation::silu);
  const auto &x = start.sum, &normalised = start.output;
  const auto shift = shift_->forward(condition);
  if (leaves_bias_to_norm(*conv1_, normalised)) {
    const auto inner = normalise_shifted(*norm2_, *conv1_, normalised, shift, Activation::silu);
    return with_branch(x, shortcut_.get(), *conv2_, inner);
  }
  const auto h = shifted(*conv1_, normalised, shift);
  return with_branch(x, shortcut_.get(), *conv2_, normalise(*norm2_, h, Activation::silu));
}

UnetAttentionImpl::UnetAttentionImpl(int64_t channels, int64_t heads) : heads_(heads) {
  TORCH_CHECK(heads > 0 && channels % heads == 0, "U-Net: ", heads, " heads do not divide ",
              channels, " channels");
  norm_ = register_module("norm", make_unet_norm(channels));
  qkv_ = register_module("qkv", make_token_layer(channels, 3 * channels));
  proj_out_ = register_module("proj_out", zeroed(make_token_layer(channels, channels)));
}

Residual UnetAttentionImpl::forward(Residual& input) {
  const auto start = settle_and_normalise(*norm_, input, Activation::none);
  const auto &x = start.sum, &normalised = start.output;
  const auto tokens = normalised.flatten(2).transpose(1, 2);  // [B, T, C]
  // Channels are ordered by head, then query, key and value. Unbound so, their gradients are
  // joined in one pass.
  const auto parts = on_tokens(*qkv_, tokens).unflatten(2, {heads_, 3, -1}).unbind(3);
  const auto by_head = [&](int part) { return parts[part].transpose(1, 2); };
  const auto mixed =  // [B, heads, T, C / heads]; softmax in fp32 whatever the inputs' type
      at::scaled_dot_product_attention(by_head(0), by_head(1), by_head(2));
  const auto h = on_tokens(*proj_out_, mixed.transpose(1, 2).flatten(2));
  return {x, h.transpose(1, 2).unflatten(2, {x.size(2), x.size(3)})};
}

UnetStageImpl::UnetStageImpl(const Shape& shape) {
  const int64_t width = shape.block.outputs;
  block_ = register_module("0", std::make_shared<UnetResBlockImpl>(shape.block));
  if (shape.heads > 0) {
    attention_ = register_module("1", std::make_shared<UnetAttentionImpl>(width, shape.heads));
  }
  if (shape.upsample) {
    const auto group = add_group(*this, attention_ ? "2" : "1");
    upsample_ = group->register_module("conv", make_conv({.inputs = width, .outputs = width}));
  }
}

Residual UnetStageImpl::forward(Residual& input, const torch::Tensor& condition) {
  auto x = block_->forward(input, condition);
  if (attention_) x = attention_->forward(x);
  if (!upsample_) return x;
  return convolved(*upsample_, doubled(x));
}

UnetMiddleImpl::UnetMiddleImpl(int64_t channels, int64_t condition, int64_t heads) {
  const UnetResBlockImpl::Shape shape{channels, channels, condition};
  first_ = register_module("0", std::make_shared<UnetResBlockImpl>(shape));
  attention_ = register_module("1", std::make_shared<UnetAttentionImpl>(channels, heads));
  last_ = register_module("2", std::make_shared<UnetResBlockImpl>(shape));
}

Residual UnetMiddleImpl::forward(Residual& input, const torch::Tensor& condition) {
  auto x = first_->forward(input, condition);
  x = attention_->forward(x);
  return last_->forward(x, condition);
}

UnetDownsampleImpl::UnetDownsampleImpl(int64_t channels) {
  op_ = register_module("op", make_conv({.inputs = channels, .outputs = channels, .stride = 2}));
}

Residual UnetDownsampleImpl::forward(Residual& input) { return convolved(*op_, settle(input)); }

}  // namespace nsvq
