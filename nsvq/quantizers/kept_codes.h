#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>
#include <utility>
#include <vector>

namespace nsvq {

/// Codes that a network makes, without gradients, kept until a parameter or buffer of the module
/// changes: evaluation asks for them with every batch.
class KeptCodes {
 public:
  torch::Tensor get(const torch::nn::Module& module, const std::function<torch::Tensor()>& make);

 private:
  torch::Tensor codes_;
  std::vector<std::pair<const void*, uint32_t>> made_of_;  ///< where a tensor lay, which version
};

}  // namespace nsvq
