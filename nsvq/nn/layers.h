#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>

// Forward declarations, because torch/nn/modules/{conv,normalization}.h are slow to parse; sources
// that use these classes include them.
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
  bool padded = true;  ///< so that stride 1 keeps the size
};

/// A convolution with a square kernel.
std::shared_ptr<torch::nn::Conv2dImpl> make_conv(const ConvShape& shape);

inline constexpr double kNormEps = 1e-6;

/// GroupNorm with 32 groups. If 32 does not divide the channels (narrow models), fewer groups of at
/// least 4 channels each, as in the full model: groups of one channel would remove each image's
/// mean from every channel, and with it the image's colours.
std::shared_ptr<torch::nn::GroupNormImpl> make_norm(int64_t channels, double eps = kNormEps);

/// Whether the operator after conv(x) should add the convolution's bias: true on a GPU with
/// channels-last memory, where PyTorch adds it in a separate pass.
bool defers_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);
torch::Tensor without_bias(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

/// relu(conv(x)), with a deferred bias added by nsvq/ops/images/bias_relu.h.
torch::Tensor conv_relu(torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

enum class Activation { none, silu };

/// Activations x and a residual branch h, both [B, C, H, W], whose sum is left to the next norm: it
/// adds them in the pass that computes its statistics. Without a gradient, a norm that is given the
/// only reference to h writes the sum over it; so move what is not needed any more.
struct Residual {
  torch::Tensor x, h;         ///< undefined h: nothing to add
  torch::Tensor offset = {};  ///< [C] that is to be added as well, or undefined
  torch::Tensor skip = {};    ///< [B, D, H, W] whose channels follow those of the sum, or undefined

  torch::Tensor sum() const;
};

/// Whether the next norm should add the bias of conv(x): where it is deferred, and no gradient
/// wanted.
bool leaves_bias_to_norm(const torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

/// conv(x), whose bias is left to the next norm where that may be; of images in half precision on a
/// GPU, without a gradient, by nsvq/ops/images/image_patches.h.
Residual convolved(torch::nn::Conv2dImpl& conv, const torch::Tensor& x);

/// The end of a residual block: shortcut(x), or x if that is null, with conv(inner) to be added.
/// Biases are left to the next norm where that may be, else both are added in one pass.
Residual with_branch(const torch::Tensor& x, torch::nn::Conv2dImpl* shortcut,
                     torch::nn::Conv2dImpl& conv, const torch::Tensor& inner);

/// The sum with each pixel as four: [B, C, H, W] to [B, C, 2H, 2W].
torch::Tensor doubled(const Residual& x);
/// The sum with a row and a column of zeros after the last.
torch::Tensor padded_after(const Residual& x);

/// The channels of x, then those of skip; joined by the next norm if no gradient is wanted.
Residual joined(const Residual& x, const torch::Tensor& skip);

/// The norm of conv(x) + shift [B, C] and the activation, where the bias is left to the norm.
torch::Tensor normalise_shifted(torch::nn::GroupNormImpl& norm, const torch::nn::Conv2dImpl& conv,
                                const torch::Tensor& x, const torch::Tensor& shift,
                                Activation activation);

/// GroupNorm of x [B, C, H, W] and the activation: one fused operator
/// (nsvq/ops/group_norm/group_norm_silu.h) if memory is channels-last, else PyTorch's operators.
torch::Tensor normalise(torch::nn::GroupNormImpl& norm, const torch::Tensor& x,
                        Activation activation);

/// The norm of what is to be added, and the activation, where the sum itself is not needed.
torch::Tensor normalise(torch::nn::GroupNormImpl& norm, Residual residual, Activation activation);

/// make_norm's GroupNorm of x, without weights.
torch::Tensor normalise_without_weights(const torch::Tensor& x);

struct Normalised {
  torch::Tensor sum, output;
  torch::Tensor offset = {};  ///< [C] that the sum lacks, or undefined
};

/// What becomes of an offset without a branch: a part of the sum, or left to the next norm again,
/// which saves a pass.
enum class Offset { added, left };

/// x + h and its norm with activation: one fused operator (nsvq/ops/group_norm/add_norm_silu.h) if
/// memory is channels-last, else PyTorch's operators.
Normalised add_and_normalise(torch::nn::GroupNormImpl& norm, Residual residual,
                             Activation activation, Offset left_over = Offset::added);

/// Converts convolution weights to channels-last; activations then become channels-last too.
void make_channels_last(torch::nn::Module& module);
/// make_channels_last if the module is on a GPU, where it is faster.
void use_gpu_layout(torch::nn::Module& module);

/// Number of elements in all parameters of a module.
int64_t parameter_count(const torch::nn::Module& module);

using NetworkPart = std::function<torch::Tensor(const torch::Tensor&)>;

/// part(x) with activation checkpointing: only x is saved, and the backward pass runs the part's
/// forward again. Results and gradients equal those without it.
torch::Tensor recomputed(NetworkPart part, const torch::Tensor& x);

}  // namespace nsvq
