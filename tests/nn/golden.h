#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/core/random.h"

namespace nsvq {

// Comparison with the golden values that golden/*.py wrote.

/// `draw` of the Python scripts: SplitMix64 seeded with the FNV-1a hash of the name, in [-1, 1).
inline torch::Tensor draw_golden(const std::string& name, torch::IntArrayRef shape,
                                 double scale = 1, double offset = 0) {
  uint64_t seed = 0xcbf29ce484222325ULL;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  Random random(seed);
  auto values = torch::empty(shape, torch::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = (2 * random.uniform() - 1) * scale + offset;
  }
  return values.to(torch::kFloat);
}

/// Weights of unit gain, norm weights about 1, biases about 0.
inline void fill_golden(torch::nn::Module& module, const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const auto& name = item.key();
    const auto& p = item.value();
    const bool norm = p.dim() == 1 && name.ends_with("weight");
    const double fan_in = p.dim() > 1 ? static_cast<double>(p[0].numel()) : 0;
    const double scale = p.dim() > 1 ? std::sqrt(3 / fan_in) : 0.25;
    p.copy_(draw_golden(prefix + name, p.sizes(), scale, norm ? 1 : 0));
  }
}

/// Norm and samples, each sample relative to the tensor's root mean square. Some gradients are zero
/// by the maths (softmax ignores the bias of k): below kFloor only the absolute error counts.
inline constexpr double kFloor = 0.05;

inline void expect_golden(const torch::Tensor& actual, const nlohmann::json& golden,
                          double tolerance, const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  const auto flat = actual.detach().to(torch::kDouble).contiguous().flatten();
  const auto norm = golden.at("norm").get<double>();
  EXPECT_NEAR(flat.norm().item<double>(), norm, tolerance * std::max(norm, kFloor)) << what;
  const auto samples = golden.at("samples").get<std::vector<double>>();
  const auto count = static_cast<int64_t>(samples.size());
  ASSERT_GT(count, 0) << what;
  const double size = std::max(norm / std::sqrt(static_cast<double>(flat.numel())), kFloor);
  for (int64_t i = 0; i < count; ++i) {
    const auto value = flat[i * flat.numel() / count].item<double>();
    EXPECT_NEAR(value, samples[i], tolerance * (size + std::abs(samples[i])))
        << what << " sample " << i;
  }
}

struct Mode {
  const char* name;
  torch::ScalarType dtype;
  torch::MemoryFormat format;
  double output_tolerance, gradient_tolerance;
};

inline const Mode kModes[] = {
    {"fp64", torch::kDouble, torch::MemoryFormat::Contiguous, 1e-9, 1e-9},
    {"fp32", torch::kFloat, torch::MemoryFormat::Contiguous, 1e-5, 1e-4},
    {"fp32_channels_last", torch::kFloat, torch::MemoryFormat::ChannelsLast, 1e-5, 1e-4},
};

}  // namespace nsvq
