#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

namespace torch::nn {
class LinearImpl;
}

namespace nsvq {

struct VitBlockShape {
  int64_t width;
  int64_t heads;          ///< divides the width
  int64_t mlp_ratio = 2;  ///< hidden channels of the MLP as a multiple of the width
};

/// A pre-norm vision transformer block on tokens [T, width]: self-attention, then an MLP with
/// tanh-GELU, each after a layer norm without parameters and with a residual connection. Weights
/// are initialised Xavier-uniform, biases to 0.
struct VitBlockImpl : torch::nn::Module {
  explicit VitBlockImpl(const VitBlockShape& shape);
  torch::Tensor forward(const torch::Tensor& tokens);
  /// With adaptive layer norms, as in DiT. `modulation` [6, width]: shift, scale and gate of the
  /// attention, then of the MLP. Tokens are modulated after each norm, and what attention and MLP
  /// add is multiplied by their gates: zeros make the block the identity.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& modulation);

 private:
  torch::Tensor attention(const torch::Tensor& tokens);
  torch::Tensor mlp(const torch::Tensor& tokens);

  int64_t heads_;
  std::shared_ptr<torch::nn::LinearImpl> qkv_, proj_, fc1_, fc2_;
};

/// (x - mean) / sqrt(variance + 1e-6) over the last dimension.
torch::Tensor plain_layer_norm(const torch::Tensor& x);

/// A layer norm without parameters, then x (1 + scale) + shift; both [width].
torch::Tensor modulated_layer_norm(const torch::Tensor& x, const torch::Tensor& shift,
                                   const torch::Tensor& scale);

/// Fixed positions [side * side, width] of tokens on a square, row by row: sine and cosine of the
/// column in the first half of the channels, of the row in the second, at frequencies from 1 down
/// to 1e-4. The width is a multiple of 4.
torch::Tensor sincos_positions(int64_t side, int64_t width, const torch::TensorOptions& options);

/// A linear layer of zeros.
std::shared_ptr<torch::nn::LinearImpl> make_zero_linear(int64_t inputs, int64_t outputs);

/// A linear layer with Xavier-uniform weights and bias 0.
std::shared_ptr<torch::nn::LinearImpl> make_xavier_linear(int64_t inputs, int64_t outputs);

}  // namespace nsvq
