#pragma once

#include <torch/types.h>

#include <vector>

namespace nsvq {

/// Slots of an optimizer: the i-th tensors of all lists belong together, fp32, of one shape, dense,
/// and in one order in memory (a gradient in another is copied to the parameter's). `steps` are
/// scalars on the parameters' device. `averages` may be empty.
struct AdamTensors {
  std::vector<torch::Tensor> parameters, gradients, moments1, moments2, steps, averages;
  std::vector<double> lr_scales = {};  ///< factors on the learning rate; empty: 1
  // What varies from step to step, scalars on the parameters' device; undefined: 1.
  torch::Tensor lr_factor = {};        ///< fp64, on the learning rate
  torch::Tensor gradient_factor = {};  ///< fp32, on all gradients
  torch::Tensor average_decay = {};    ///< fp32, instead of the option
};

struct AdamOptions {
  double lr, beta1, beta2, eps;
  double weight_decay = 0;
  double average_decay = 0;
};

/// One step of Adam with bias correction, as at::_fused_adam_ computes it on a CPU, `steps` counted
/// up by it; with a weight decay, AdamW's: parameters first shrink by the rate times that share.
/// Then average <- decay * average + (1 - decay) * parameter. Nothing changes where `bad`, a
/// boolean on the parameters' device or undefined, is true. A GPU does it in two launches for 480
/// tensors, and the host neither waits nor copies: pointers and options are arguments of the
/// launches, so a captured CUDA graph keeps those it was captured with and reads the scalars
/// anew.
void adam_step(const AdamTensors& tensors, const AdamOptions& options, const torch::Tensor& bad);

/// average <- decay * average + (1 - decay) * parameter, for parameters without gradients.
void average_step(const std::vector<torch::Tensor>& parameters,
                  const std::vector<torch::Tensor>& averages, double decay,
                  const torch::Tensor& bad);

/// adam_step and average_step in PyTorch's operators, on any device; they synchronise if `bad` is
/// defined.
void adam_step_reference(const AdamTensors& tensors, const AdamOptions& options,
                         const torch::Tensor& bad);
void average_step_reference(const std::vector<torch::Tensor>& parameters,
                            const std::vector<torch::Tensor>& averages, double decay,
                            const torch::Tensor& bad);

}  // namespace nsvq
