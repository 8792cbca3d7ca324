#pragma once

#include <torch/types.h>

#include <map>
#include <stdexcept>
#include <string>

#include "nsvq/train/tokenizer.h"

namespace nsvq {

/// A step that cannot be taken: some number of it is not finite.
struct NotFinite : std::runtime_error {
  explicit NotFinite(const std::map<std::string, torch::Tensor>& scalars);
};

/// Throws NotFinite unless all scalars are finite. Waits for the device once.
void require_finite(const std::map<std::string, torch::Tensor>& scalars);

/// Where numbers first stop being finite, for people: the images, a weight, a layer on the way from
/// the images to the reconstructions, or else the layer nearest to the loss whose gradient is bad.
/// Runs the model once more, watching every operation.
std::string first_not_finite(Tokenizer& model, const torch::Tensor& images);

}  // namespace nsvq
