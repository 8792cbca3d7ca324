#pragma once

#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// Exponential moving average of a model's weights, itself a model to evaluate with. Decay 0 keeps
/// a plain copy.
class Ema {
 public:
  Ema(const Config& config, Tokenizer model);

  /// average <- decay * average + (1 - decay) * model, frozen parts included: those it then
  /// approaches.
  void update();
  /// Makes some rows of the average's codebook, [K] of booleans, equal to the model's: an
  /// overwritten code has no past to average over.
  void copy_codes(const torch::Tensor& rows);
  void copy_all();

  Tokenizer& average() { return average_; }

 private:
  double decay_;
  Tokenizer model_, average_;
};

}  // namespace nsvq
