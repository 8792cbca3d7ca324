#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/losses/random_lpips.h"

namespace nsvq {

/// Of a network with batch norm, as `fill` of golden/random_statistics.py.
inline std::map<std::string, torch::Tensor> formula_weights(const torch::nn::Module& net) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : net.named_parameters()) {
    const auto& name = item.key();
    auto values = draw(name, item.value().sizes());
    if (values.dim() > 1) {
      values = values * std::sqrt(6.0 / static_cast<double>(values[0].numel()));
    } else if (name.ends_with("weight") || name.ends_with("running_var")) {
      values = values / 2 + 1;
    } else {
      values = values / 4;
    }
    tensors[name] = values.to(torch::kFloat);
  }
  return tensors;
}

/// Compares a tensor with `summary` of golden/autoencoder.py.
inline void expect_matches(const torch::Tensor& actual, const nlohmann::json& golden,
                           double tolerance) {
  const auto flat = actual.to(torch::kDouble).contiguous().flatten();
  const auto norm = golden.at("norm").get<double>();
  EXPECT_NEAR(flat.norm().item<double>(), norm, tolerance * norm);
  const auto samples = golden.at("samples").get<std::vector<double>>();
  const auto count = static_cast<int64_t>(samples.size());
  ASSERT_GE(count, 16);
  const double size = norm / std::sqrt(static_cast<double>(flat.numel()));
  for (int64_t i = 0; i < count; ++i) {
    const auto value = flat[i * flat.numel() / count].item<double>();
    EXPECT_NEAR(value, samples[i], tolerance * (size + std::abs(samples[i]))) << "sample " << i;
  }
}

}  // namespace nsvq
