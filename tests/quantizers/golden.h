#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

/// What the scripts under golden/ fill tensors with.
inline torch::Tensor formula(at::IntArrayRef shape, double scale, double phase) {
  const int64_t n = c10::multiply_integers(shape);
  return (at::arange(n, at::kDouble).pow(1.3) * 0.7 + phase).sin().mul(scale).reshape(shape);
}

inline nlohmann::json golden_cases(const std::string& name) {
  std::ifstream in(NSVQ_TESTS_DIR "/golden/" + name);
  return nlohmann::json::parse(in);
}

/// Fills a quantizer's tensors, in the order of names, with the formula at rising phases.
inline void fill_tensors(Quantizer& quantizer, const std::vector<std::string>& names, double scale,
                         double phase) {
  const torch::NoGradGuard no_grad;
  quantizer.to(at::kDouble);
  auto tensors = quantizer.named_parameters();
  for (const auto& item : quantizer.named_buffers()) tensors.insert(item.key(), item.value());
  ASSERT_EQ(names.size(), tensors.size());
  for (size_t i = 0; i < names.size(); ++i) {
    auto& tensor = tensors[names[i]];
    tensor.copy_(formula(tensor.sizes(), scale, phase + 1.1 * static_cast<double>(i)));
  }
}

inline void expect_values(const torch::Tensor& tensor, const nlohmann::json& values) {
  const auto expected = at::tensor(values.get<std::vector<double>>(), at::kDouble);
  ASSERT_EQ(tensor.numel(), expected.numel());
  EXPECT_LE((tensor.flatten() - expected).abs().max().item<double>(), 1e-11);
}

}  // namespace nsvq
