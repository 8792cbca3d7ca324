#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <string>

#include "nsvq/core/random.h"
#include "nsvq/core/tensor_map.h"

namespace nsvq {

/// `draw` of tests/nn/golden/autoencoder.py: SplitMix64 seeded with the FNV-1a hash of the name,
/// in [-1, 1).
inline torch::Tensor draw(const std::string& name, torch::IntArrayRef shape) {
  uint64_t seed = 0xcbf29ce484222325ULL;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  Random random(seed);
  auto values = torch::empty(shape, torch::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = 2 * random.uniform() - 1;
  }
  return values;
}

/// Values for the parameters of a feature network or of heads that follow from their names, as
/// `fill` in golden/lpips.py makes them.
inline TensorMap random_weights(const torch::nn::Module& module) {
  TensorMap tensors;
  for (const auto& item : module.named_parameters()) {
    const auto& name = item.key();
    const auto& shape = item.value().sizes();
    auto values = draw(name, shape);
    if (name.starts_with("lin")) {
      values = values / 2 + 0.5;
    } else if (shape.size() > 1) {
      values = values * std::sqrt(6.0 / static_cast<double>(values[0].numel()));
    } else {
      values = values * 0.1;
    }
    tensors[name] = values.to(torch::kFloat);
  }
  return tensors;
}

}  // namespace nsvq
