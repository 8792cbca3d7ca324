#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

// torch/nn/modules/{conv,normalization}.h are slow to parse; only sources that call these include
// them.
namespace torch::nn {
class Conv2dImpl;
class GroupNormImpl;
class Module;
}  // namespace torch::nn

namespace nsvq {

struct ConvShape {
  int64_t inputs, outputs;
  int64_t kernel = 3;
  int64_t stride = 1;
  bool bias = true;
};

/// A square convolution, padded so that stride 1 keeps the size.
std::shared_ptr<torch::nn::Conv2dImpl> make_conv(const ConvShape& shape);

/// GroupNorm of 32 groups; where 32 does not divide the channels (narrow models), of groups of at
/// least 4 channels, as the full model has them. Groups of one channel would take every picture's
/// mean out of every channel, and its colours with it.
std::shared_ptr<torch::nn::GroupNormImpl> make_norm(int64_t channels);

/// Whether what follows a convolution of x should add its bias: on a GPU, channels-last, PyTorch
/// does so in a pass of its own.
bool leaves_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);
torch::Tensor without_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

/// ReLU of a convolution, with a bias that was left (nsvq/ops/images/bias_relu.h).
torch::Tensor conv_relu(torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

enum class Activation { none, silu };

/// The norm and what follows it: in one operator (nsvq/ops/group_norm/group_norm_silu.h) where
/// memory is channels-last, in PyTorch's otherwise.
torch::Tensor normalise(torch::nn::GroupNormImpl& norm, const torch::Tensor& x,
                        Activation activation);

/// An image and what is still to be added to it: the norm that comes next does so in the pass that
/// it makes for its statistics anyway.
struct Residual {
  torch::Tensor x, h;  ///< `h` is undefined where nothing is to be added

  torch::Tensor sum() const { return h.defined() ? x + h : x; }
};

struct Normalised {
  torch::Tensor sum, output;
};

/// The sum and the norm of it: in one operator (nsvq/ops/group_norm/add_norm_silu.h) where memory
/// is channels-last.
Normalised add_and_normalise(torch::nn::GroupNormImpl& norm, const Residual& residual,
                             Activation activation);

/// Makes the weights of convolutions channels-last; convolutions and norms then keep to it.
void make_channels_last(torch::nn::Module& module);
/// The same if they are on a GPU, which is faster so.
void use_gpu_layout(torch::nn::Module& module);

/// Numbers in all parameters of a module.
int64_t parameter_count(const torch::nn::Module& module);

}  // namespace nsvq
