#pragma once

#include <torch/nn/module.h>

#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// A module's parameters by their names, as a file of the store has them.
inline TensorMap first_weights(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  return tensors;
}

}  // namespace nsvq
