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

 private:
  torch::Tensor attention(const torch::Tensor& tokens);

  int64_t heads_;
  std::shared_ptr<torch::nn::LinearImpl> qkv_, proj_, fc1_, fc2_;
};

/// (x - mean) / sqrt(variance + 1e-6) over the last dimension.
torch::Tensor plain_layer_norm(const torch::Tensor& x);

/// A linear layer with Xavier-uniform weights and bias 0.
std::shared_ptr<torch::nn::LinearImpl> make_xavier_linear(int64_t inputs, int64_t outputs);

}  // namespace nsvq
