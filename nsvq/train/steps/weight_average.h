#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <vector>

namespace nsvq {

/// Exponential moving average of a module's weights, kept in a second module of the same structure,
/// which is the one to evaluate and to store:
///
///   average <- decay * average + (1 - decay) * weight      (nsvq/ops/adam/adam.h)
///
/// The optimizer that is given the average applies this in its own pass over the weights. Buffers
/// are copied, not averaged.
class WeightAverage {
 public:
  /// `average` becomes a copy of `module`. Both outlive this object through their pointers.
  WeightAverage(std::shared_ptr<torch::nn::Module> module,
                std::shared_ptr<torch::nn::Module> average, double decay);

  double decay() const { return decay_; }
  /// The average of one of the module's parameters or buffers.
  torch::Tensor of(const torch::Tensor& tensor) const;

  /// After a step: buffers of the average become the module's.
  void copy_buffers();
  /// Rows of the average of `tensor`, [rows] of booleans, become the module's: a row that was
  /// overwritten has no past to average over.
  void copy_rows(const torch::Tensor& tensor, const torch::Tensor& rows);
  void copy_all();

 private:
  std::shared_ptr<torch::nn::Module> module_, average_;
  double decay_;
};

}  // namespace nsvq
