#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "nsvq/core/tensor_map.h"
#include "tests/nn/golden.h"

namespace nsvq {

/// Weights of a network with batch norm, equal to those of `fill` in golden/random_statistics.py.
inline TensorMap formula_weights(const torch::nn::Module& net) {
  TensorMap tensors;
  for (const auto& item : net.named_parameters()) {
    const auto& [name, value] = item.pair();
    const bool about_one = name.ends_with("weight") || name.ends_with("running_var");
    tensors[name] = value.dim() > 1
                        ? draw_golden(name, value.sizes(),
                                      std::sqrt(6.0 / static_cast<double>(value[0].numel())))
                    : about_one ? draw_golden(name, value.sizes(), 0.5, 1)
                                : draw_golden(name, value.sizes(), 0.25);
  }
  return tensors;
}

/// A pretrained network's tensors: of so many convolutions, with the four tensors of a batch norm
/// each, and so many numbers without running statistics; some of their names.
inline void expect_conv_norms(const torch::nn::Module& net, size_t convolutions, int64_t numbers,
                              const std::vector<std::string>& names) {
  const auto parameters = net.named_parameters();
  EXPECT_EQ(parameters.size(), 5 * convolutions);
  int64_t found = 0;
  for (const auto& item : parameters) {
    EXPECT_FALSE(item.value().requires_grad()) << item.key();
    if (item.key().find("running") == std::string::npos) found += item.value().numel();
  }
  EXPECT_EQ(found, numbers);
  for (const auto& name : names) EXPECT_NE(parameters.find(name), nullptr) << name;
}

}  // namespace nsvq
