#pragma once

// Golden values of golden/<name>.json, as golden/common.py writes them.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/quantizers/quantizer.h"
#include "tests/quantizers/settings.h"

namespace nsvq {

/// What a script under golden/ computed.
inline nlohmann::json golden(const std::string& name) {
  std::ifstream in(NSVQ_TESTS_DIR "/golden/" + name + ".json");
  return nlohmann::json::parse(in);
}

/// The inputs of those scripts.
inline torch::Tensor formula(at::IntArrayRef shape, double scale, double phase) {
  const auto n = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (n.pow(1.3) * 0.7 + phase).sin().mul(scale).reshape(shape);
}

inline torch::Tensor tensor_of(const nlohmann::json& numbers) {
  return at::tensor(numbers.get<std::vector<double>>(), at::kDouble);
}

inline double farthest(const torch::Tensor& values, const nlohmann::json& expected) {
  return (values.detach().to(at::kDouble).flatten() - tensor_of(expected))
      .abs()
      .max()
      .item<double>();
}

inline void expect_near(const torch::Tensor& value, const nlohmann::json& expected,
                        const std::string& name = "") {
  ASSERT_TRUE(value.defined()) << name;
  ASSERT_EQ(value.numel(), static_cast<int64_t>(expected.size())) << name;
  EXPECT_LE(farthest(value, expected), 1e-11) << name;
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

/// The quantizer of a case, in fp64, with the case's parameters and buffers.
inline std::shared_ptr<Quantizer> golden_quantizer(const nlohmann::json& expected) {
  QuantizerSettings config;
  apply_settings(config, expected.at("settings").get<std::vector<std::string>>());
  const auto shape = expected.at("shape").get<std::vector<int64_t>>();
  const auto quantizer = make_quantizer(config.quantizer, shape[1]);
  quantizer->to(at::kDouble);
  const torch::NoGradGuard no_grad;
  auto tensors = quantizer->named_parameters();
  tensors.update(quantizer->named_buffers());
  for (const auto& [name, spec] : expected.at("tensors").items()) {
    auto& tensor = tensors[name];
    tensor.copy_(formula(tensor.sizes(), spec[0], spec[1]));
  }
  return quantizer;
}

/// Losses, indices, the decoder's input and all gradients of a case.
inline void check_case(const nlohmann::json& expected, Quantizer& quantizer) {
  const auto shape = expected.at("shape").get<std::vector<int64_t>>();
  const auto latents = formula(shape, expected.at("scale"), 0.1).requires_grad_();
  const auto result = quantizer.quantize(
      latents,
      {.commitment = expected.at("commitment"), .extra_codebook_terms = expected.at("neighbours")});
  (result.loss + (result.latents * formula(shape, 1.0, 2.9)).sum()).backward();
  EXPECT_NEAR(result.loss.item<double>(), expected.at("loss").get<double>(), 1e-12);
  EXPECT_TRUE(at::equal(result.indices.flatten(), tensor_of(expected.at("indices")).to(at::kLong)));
  expect_near(result.latents, expected.at("latents"), "latents");
  expect_near(latents.grad(), expected.at("latent_gradient"), "latent_gradient");
  const auto parameters = quantizer.named_parameters();
  EXPECT_EQ(parameters.size(), expected.at("gradients").size());
  for (const auto& [name, gradient] : expected.at("gradients").items()) {
    expect_near(parameters[name].grad(), gradient, name);
  }
}

inline void check_golden(const std::string& name, size_t at_least) {
  const auto cases = golden(name);
  ASSERT_GE(cases.size(), at_least);
  for (const auto& expected : cases) {
    SCOPED_TRACE(expected.at("settings").dump());
    check_case(expected, *golden_quantizer(expected));
  }
}

}  // namespace nsvq
