#pragma once

#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// Exponential moving average of a model's weights, itself a model to evaluate with.
class Ema {
 public:
  Ema(const Config& config, Tokenizer model);

  /// The average's parameters, in the order of the model's: the optimizer's pass moves them.
  std::vector<torch::Tensor> parameters() const { return average_->parameters(); }
  /// What is no parameter is not averaged but copied.
  void copy_buffers();
  /// Makes some rows of the average's codebook, [K] of booleans, equal to the model's: an
  /// overwritten code has no past to average over.
  void copy_codes(const torch::Tensor& rows);
  void copy_all();

  Tokenizer& average() { return average_; }

 private:
  Tokenizer model_, average_;
};

}  // namespace nsvq
