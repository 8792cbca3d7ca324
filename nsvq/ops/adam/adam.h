#pragma once

#include <torch/types.h>

#include <vector>

namespace nsvq {

/// Slots of an optimizer: the i-th tensors of all lists belong together, fp32, of one shape, dense,
/// and in one order in memory (a gradient in another is copied to the parameter's). `steps` are
/// scalars on the parameters' device. `averages` may be empty.
struct AdamTensors {
  std::vector<torch::Tensor> parameters, gradients, moments1, moments2, steps, averages;
};

struct AdamOptions {
  double lr, beta1, beta2, eps;
  double average_decay = 0;
};

/// One step of Adam with bias correction, without weight decay, as at::_fused_adam_ computes it on
/// a CPU, `steps` counted up by it; then average <- decay * average + (1 - decay) * parameter.
/// Nothing changes where `bad`, a boolean on the parameters' device or undefined, is true. A GPU
/// does it in two launches for 512 tensors, and the host neither waits nor copies: pointers and
/// options are arguments of the launches, so a captured CUDA graph keeps those it was captured
/// with.
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
