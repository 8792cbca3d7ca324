#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "nsvq/tokenizer/tokenizer.h"
#include "nsvq/train/step_guard.h"

namespace nsvq {

/// Where values first become non-finite: the images [B, 3, H, W], a weight,
/// an operator and its layer in the forward pass, or else the last parameter (nearest to the loss)
/// with a non-finite gradient. Runs the forward pass again and checks the output of every operator.
/// The gradient norms in `scalars` (the step's logged values) stand in for gradients that have been
/// cleared.
NonfinitePlace first_nonfinite(Tokenizer& model, const torch::Tensor& images,
                               const std::map<std::string, double>& scalars = {});

}  // namespace nsvq
