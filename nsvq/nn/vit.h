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

/// A vision transformer's block on tokens [T, width]: attention over all tokens, then an MLP with
/// tanh-GELU, each behind a layer norm without parameters and added to its input. Weights are
/// Xavier-uniform, biases 0.
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
