#pragma once

#include <torch/types.h>

#include <map>
#include <optional>
#include <string>

#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/run_observer.h"
#include "nsvq/train/vq/objective.h"

namespace nsvq {

/// Where values first become non-finite: the images [B, 3, H, W], a weight, an operator and its
/// layer in the forward pass, or else the last parameter (nearest to the loss) with a non-finite
/// gradient. Runs the forward pass again and checks the output of every operator.
/// The gradient norms in `scalars` (the step's logged values) stand in for gradients that have been
/// cleared.
NonfiniteLocation first_nonfinite(Tokenizer& model, const torch::Tensor& images,
                                  const std::map<std::string, double>& scalars = {});

/// Names the layer, weight or image at which a step of a tokenizer's training became non-finite.
class Diagnosis : public RunObserver {
 public:
  /// Both outlive it.
  Diagnosis(Tokenizer& model, const Objective& objective) : model_(model), objective_(objective) {}
  std::optional<NonfiniteLocation> locate_nonfinite(const SkippedSteps& skipped) override;

 private:
  Tokenizer& model_;
  const Objective& objective_;
};

}  // namespace nsvq
