#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsvq/nn/named_tensors.h"
#include "nsvq/recipe/optimizer.h"
#include "nsvq/train/steps/weight_average.h"

namespace nsvq {

/// Adam over named parameters and, in the same pass, the average of their weights
/// (nsvq/ops/adam/adam.h). A parameter without a gradient (frozen, or not part of the step) is left
/// alone and keeps its moments; its average still approaches it.
class Adam {
 public:
  struct Parameter {
    std::string name;
    torch::Tensor tensor;
    double lr_scale = 1;  ///< factor on the learning rate
    double eps = 0;       ///< instead of the settings'; 0: theirs
  };
  using Parameters = std::vector<Parameter>;

  /// Every step also moves `average`, if given.
  Adam(const Parameters& parameters, const OptimizerConfig& config,
       const WeightAverage* average = nullptr);

  /// Factor on the learning rate from now on, also in CUDA graphs that were captured before.
  void set_lr_factor(double factor);
  /// The average's decay from the next step on, fp32 on the device, instead of its own, for
  /// parameters that have gradients. Where it is computed within a captured step, each replay
  /// computes it.
  void set_average_decay(const torch::Tensor& decay) { average_decay_now_ = decay; }
  /// The learning rate without the parameters' own factors, fp32 on the device.
  torch::Tensor lr() const { return (lr_factor_ * config_.lr).to(at::kFloat); }
  /// Changes nothing if `skip`, a boolean on the device or undefined, is true.
  void step(const torch::Tensor& skip = {});
  /// Steps change nothing, as if skipped, where `held`, a boolean on the device, is true. Where it
  /// is computed within a captured step, each replay computes it.
  void hold_where(const torch::Tensor& held) { held_ = held; }
  /// Leaves all gradients undefined.
  void clear_gradients();
  /// Zeroes the moments of some rows of a parameter, [rows] of booleans: they were overwritten.
  void reset_rows(const torch::Tensor& parameter, const torch::Tensor& rows);
  /// Moments and step counts by "name.moment1", "name.moment2", "name.steps": what a checkpoint
  /// keeps.
  TensorMap state() const;
  /// Throws UserError, calling the state's origin `from`, when it does not fit the parameters.
  void load(const TensorMap& state, const std::string& from);

 private:
  struct Slot {
    std::string name;
    torch::Tensor parameter, moment1, moment2, steps, average;
    double lr_scale, eps, weight_decay;
  };
  std::vector<Slot> slots_;
  OptimizerConfig config_;
  torch::Tensor lr_factor_;  ///< fp64 on the parameters' device
  double last_lr_factor_ = 1;
  double average_decay_ = 0;
  torch::Tensor average_decay_now_;  ///< undefined: average_decay_
  torch::Tensor held_;               ///< undefined: never
};

/// A module's parameters with the names that its files use.
Adam::Parameters named_parameters(const torch::nn::Module& module, double lr_scale = 1);
/// How Adam moves a part of a module.
struct PartRate {
  double lr_scale, eps = 0;
};
/// By the names of the module's parts.
Adam::Parameters named_parameters(const torch::nn::Module& module,
                                  const std::map<std::string, PartRate>& rates);

/// The gradients that a module's parameters have.
std::vector<torch::Tensor> gradients_of(const torch::nn::Module& module);

/// L2 norm of all gradients that a module's parameters have, on `device`; zero without any.
torch::Tensor gradient_norm(const torch::nn::Module& module, c10::Device device);

}  // namespace nsvq
