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

torch::Tensor VitBlockImpl::forward(const torch::Tensor& tokens) {
  TORCH_CHECK(tokens.dim() == 2, "VitBlock: tokens must be [T, width], but they are ",
              tokens.sizes());
  const auto attended = tokens + attention(plain_layer_norm(tokens));
  const auto hidden = at::gelu(fc1_->forward(plain_layer_norm(attended)), "tanh");
  return attended + fc2_->forward(hidden);
}

}  // namespace nsvq
