#pragma once

#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nsvq {

/// What a script under golden/ computed.
inline nlohmann::json golden(const std::string& name) {
  std::ifstream in(NSVQ_TESTS_DIR "/golden/" + name + ".json");
  return nlohmann::json::parse(in);
}

/// The inputs of those scripts.
inline torch::Tensor formula(const std::vector<int64_t>& shape, double scale, double phase) {
  int64_t n = 1;
  for (const auto size : shape) n *= size;
  return (at::arange(n, at::kDouble).pow(1.3) * 0.7 + phase).sin().mul(scale).reshape(shape);
}

inline double farthest(const torch::Tensor& values, const nlohmann::json& expected) {
  const auto other = at::tensor(expected.get<std::vector<double>>(), at::kDouble);
  return (values.detach().to(at::kDouble).flatten() - other).abs().max().item<double>();
}

}  // namespace nsvq
