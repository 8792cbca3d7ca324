#pragma once

#include <torch/types.h>

#include <map>
#include <string>

#include "nsvq/tokenizer/tokenizer.h"

namespace nsvq {

/// Where numbers first stop being finite, for people: the images, a weight, a layer on the way from
/// the images to the reconstructions, or else the layer nearest to the loss whose gradient is bad.
/// Runs the model once more, watching every operation. `scalars` of the step, if given, tell of
/// gradients that are there no more.
std::string first_not_finite(Tokenizer& model, const torch::Tensor& images,
                             const std::map<std::string, double>& scalars = {});

}  // namespace nsvq
