#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/config.h"
#include "nsvq/nn/named_tensors.h"
#include "nsvq/train/weight_average.h"

namespace nsvq {

/// Adam over named parameters and, in the same pass, the average of their weights
/// (nsvq/ops/adam/adam.h). A parameter without a gradient (frozen, or not part of the step) is left
/// alone and keeps its moments; its average still approaches it.
class Adam {
 public:
  using Named = std::vector<std::pair<std::string, torch::Tensor>>;

  /// `average`, if given, is moved by every step.
  Adam(Named parameters, const OptimizerConfig& config, const WeightAverage* average = nullptr);

  /// Changes nothing if `skip`, a boolean on the device or undefined, is true.
  void step(const torch::Tensor& skip = {});
  /// Sets the gradients to nothing.
  void clear_gradients();
  /// Zeroes the moments of some rows of a parameter, [rows] of booleans: they were overwritten.
  void reset_rows(const torch::Tensor& parameter, const torch::Tensor& rows);
  /// Moments and step counts by "name.moment1", "name.moment2", "name.steps": what a checkpoint
  /// keeps.
  TensorMap state() const;
  /// Throws UserError, calling the state's origin `from`, when it is of other parameters.
  void load(const TensorMap& state, const std::string& from);

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter, moment1, moment2, steps, average;
  };
  std::vector<Slot> slots_;
  OptimizerConfig config_;
  double average_decay_ = 0;
};

/// A module's parameters with the names that its files use.
Adam::Named named_parameters(const torch::nn::Module& module);

/// The gradients that a module's parameters have.
std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module);

/// L2 norm of all gradients that a module's parameters have, on `device`; zero without any.
torch::Tensor gradient_norm(const torch::nn::Module& module, c10::Device device);

}  // namespace nsvq
