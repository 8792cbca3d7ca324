#include "nsvq/nn/vit.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

namespace nsvq {

torch::Tensor plain_layer_norm(const torch::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, /*weight=*/{}, /*bias=*/{}, /*eps=*/1e-6);
}

std::shared_ptr<torch::nn::LinearImpl> make_xavier_linear(int64_t inputs, int64_t outputs) {
  auto layer = std::make_shared<torch::nn::LinearImpl>(inputs, outputs);
  torch::nn::init::xavier_uniform_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

std::shared_ptr<torch::nn::LinearImpl> make_zero_linear(int64_t inputs, int64_t outputs) {
  auto layer = std::make_shared<torch::nn::LinearImpl>(inputs, outputs);
  torch::nn::init::zeros_(layer->weight);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

torch::Tensor modulated_layer_norm(const torch::Tensor& x, const torch::Tensor& shift,
                                   const torch::Tensor& scale) {
  return plain_layer_norm(x) * (1 + scale) + shift;
}

torch::Tensor sincos_positions(int64_t side, int64_t width, const torch::TensorOptions& options) {
  TORCH_CHECK(width % 4 == 0, "sincos_positions: the width must be a multiple of 4, but it is ",
              width);
  const auto wide = options.dtype(at::kDouble);
  const int64_t waves = width / 4;
  const auto frequencies = at::pow(1e-4, at::arange(waves, wide) / static_cast<double>(waves));
  const auto angles = at::outer(at::arange(side, wide), frequencies);
  const auto along = at::cat({angles.sin(), angles.cos()}, 1);  // [side, width / 2]
  const auto columns = along.unsqueeze(0).expand({side, side, -1});
  const auto rows = along.unsqueeze(1).expand({side, side, -1});
  return at::cat({columns, rows}, 2).reshape({side * side, width}).to(options.dtype());
}

// Parameter names are those of timm.
VitBlockImpl::VitBlockImpl(const VitBlockShape& shape) : heads_(shape.heads) {
  TORCH_CHECK(shape.heads > 0 && shape.width % shape.heads == 0, "VitBlock: ", shape.heads,
              " heads do not divide a width of ", shape.width);
  const int64_t width = shape.width, hidden = shape.width * shape.mlp_ratio;
  qkv_ = register_module("qkv", make_xavier_linear(width, 3 * width));
  proj_ = register_module("proj", make_xavier_linear(width, width));
  fc1_ = register_module("fc1", make_xavier_linear(width, hidden));
  fc2_ = register_module("fc2", make_xavier_linear(hidden, width));
}

/// Plain matrix products rather than fused attention, which picks another kernel, and so other
/// bits, when gradients are needed.
torch::Tensor VitBlockImpl::attention(const torch::Tensor& tokens) {
  const int64_t count = tokens.size(0), width = tokens.size(1), each = width / heads_;
  const auto parts = qkv_->forward(tokens).view({count, 3, heads_, each}).permute({1, 2, 0, 3});
  const auto query = parts[0] * (1 / std::sqrt(static_cast<double>(each)));
  const auto shares = at::softmax(query.matmul(parts[1].transpose(1, 2)), -1);  // [heads, T, T]
  return proj_->forward(shares.matmul(parts[2]).transpose(0, 1).reshape({count, width}));
}

torch::Tensor VitBlockImpl::mlp(const torch::Tensor& tokens) {
  return fc2_->forward(at::gelu(fc1_->forward(tokens), "tanh"));
}

torch::Tensor VitBlockImpl::forward(const torch::Tensor& tokens) {
  TORCH_CHECK(tokens.dim() == 2, "VitBlock: tokens must be [T, width], but they are ",
              tokens.sizes());
  const auto attended = tokens + attention(plain_layer_norm(tokens));
  return attended + mlp(plain_layer_norm(attended));
}

torch::Tensor VitBlockImpl::forward(const torch::Tensor& tokens, const torch::Tensor& modulation) {
  TORCH_CHECK(tokens.dim() == 2 && modulation.dim() == 2 && modulation.size(0) == 6,
              "VitBlock: tokens must be [T, width] and modulation [6, width], but they are ",
              tokens.sizes(), " and ", modulation.sizes());
  const auto part = modulation.unbind(0);
  const auto attended =
      tokens + part[2] * attention(modulated_layer_norm(tokens, part[0], part[1]));
  return attended + part[5] * mlp(modulated_layer_norm(attended, part[3], part[4]));
}

}  // namespace nsvq
