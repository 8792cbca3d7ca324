#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <map>
#include <string>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/losses/lpips.h"
#include "nsvq/nn/weights.h"
#include "tests/environment.h"

namespace nsvq {

/// A store of weights for as long as it lives. Its weights are random, and said to be official.
class WeightsStore {
 public:
  void add(const std::string& name, const torch::nn::Module& module) {
    TensorMap tensors;
    for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
    // So that activations keep their size through the depths.
    for (auto& [key, tensor] : tensors) {
      if (tensor.dim() > 1) tensor = tensor * std::sqrt(6.0);
    }
    for (const auto& item : module.named_buffers()) tensors[item.key()] = item.value();
    save_weights(name, {tensors, "a test", true});
  }

  /// The network and its heads: vgg, alex or squeeze.
  void add_lpips(const std::string& net) {
    const auto& kind = feature_net_kind(net);
    add(kind.weights, *kind.make());
    add("lpips-" + net, LpipsHeads(kind.channels));
  }

 private:
  TemporaryFolder folder_;
  Environment variable_{"NSVQ_WEIGHTS", folder_.path()};
};

}  // namespace nsvq
