#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/core/config.h"

namespace nsvq {

/// Adam over named parameters and, in the same pass, the average of their weights
/// (nsvq/ops/adam/adam.h). A parameter without a gradient (frozen, or not part of the step) is left
/// alone and keeps its moments.
class Adam {
 public:
  using Named = std::vector<std::pair<std::string, torch::Tensor>>;

  /// `averages`, in the order of the parameters or empty, follow them with optimizer.ema_decay,
  /// those of frozen ones too.
  Adam(Named parameters, const OptimizerConfig& config,
       const std::vector<torch::Tensor>& averages = {});

  /// Changes nothing if `bad`, a boolean on the device or undefined, is true.
  void step(const torch::Tensor& bad = {});
  /// Sets the gradients to nothing.
  void clear_gradients();
  /// Forgets what is known of the gradient of some rows of a parameter, [rows] of booleans, since
  /// they were overwritten.
  void reset_rows(const torch::Tensor& parameter, const torch::Tensor& rows);
  /// Moments and step counts by "name.moment1", "name.moment2", "name.steps": what a checkpoint
  /// keeps.
  std::map<std::string, torch::Tensor> state() const;
  /// Throws UserError, calling the state's origin `from`, when it is of other parameters.
  void load(const std::map<std::string, torch::Tensor>& state, const std::string& from);

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter, moment1, moment2, steps, average;
  };
  std::vector<Slot> slots_;
  OptimizerConfig config_;
};

/// The gradients that a module's parameters have.
std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module);

/// L2 norm of all gradients that a module's parameters have, on `device`; zero without any.
torch::Tensor gradient_norm(const torch::nn::Module& module, c10::Device device);

}  // namespace nsvq
