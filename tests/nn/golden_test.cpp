// Parity with the PyTorch modules of golden/autoencoder.py, which also made
// golden/autoencoder.json.
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/random.h"
#include "nsvq/nn/autoencoder.h"

namespace nsvq {
namespace {

using nlohmann::json;

json read_golden() {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/autoencoder.json");
  return json::parse(file);
}

ModelConfig read_config(const json& j) {
  ModelConfig config;
  j.at("width").get_to(config.width);
  j.at("multipliers").get_to(config.multipliers);
  j.at("blocks").get_to(config.blocks);
  j.at("latent_dim").get_to(config.latent_dim);
  j.at("attention").get_to(config.attention);
  j.at("mid_attention").get_to(config.mid_attention);
  return config;
}

/// As `draw` in the Python: SplitMix64 seeded with the FNV-1a hash of the name, in [-1, 1).
torch::Tensor draw_golden(const std::string& name, torch::IntArrayRef shape, double scale = 1,
                          double offset = 0) {
  uint64_t seed = 0xcbf29ce484222325ULL;
  for (const char c : name) seed = (seed ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  Random random(seed);
  auto values = torch::empty(shape, torch::kDouble);
  for (int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = (2 * random.uniform() - 1) * scale + offset;
  }
  return values.to(torch::kFloat);
}

void fill(torch::nn::Module& module, const std::string& prefix) {
  const torch::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const auto& name = item.key();
    const auto& p = item.value();
    const bool norm = name.find("norm") != std::string::npos && name.ends_with("weight");
    const double fan_in = p.dim() > 1 ? static_cast<double>(p[0].numel()) : 0;
    const double scale = p.dim() > 1 ? std::sqrt(3 / fan_in) : 0.25;
    p.copy_(draw_golden(prefix + name, p.sizes(), scale, norm ? 1 : 0));
  }
}

/// Norm and samples, each sample relative to the tensor's root mean square. Some gradients are zero
/// by the maths (softmax ignores the bias of k): below kFloor only the absolute error counts.
constexpr double kFloor = 0.05;

void expect_matches(const torch::Tensor& actual, const json& golden, double tolerance,
                    const std::string& what) {
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

const Mode kModes[] = {
    {"fp64", torch::kDouble, torch::MemoryFormat::Contiguous, 1e-9, 1e-9},
    {"fp32", torch::kFloat, torch::MemoryFormat::Contiguous, 1e-5, 1e-4},
    {"fp32_channels_last", torch::kFloat, torch::MemoryFormat::ChannelsLast, 1e-5, 1e-4},
};

template <typename Model>
void check(Model model, const std::string& prefix, torch::Tensor inputs, const json& golden,
           const Mode& mode) {
  model->to(mode.dtype);
  fill(*model, prefix);
  inputs = inputs.to(mode.dtype).contiguous(mode.format).requires_grad_();
  const auto output = model->forward(inputs);
  ASSERT_EQ(output.sizes().vec(), golden.at("shape").get<std::vector<int64_t>>());
  expect_matches(output, golden.at("output"), mode.output_tolerance, prefix + "output");

  (output * draw_golden("loss", output.sizes()).to(mode.dtype)).sum().backward();
  const double tolerance = mode.gradient_tolerance;
  expect_matches(inputs.grad(), golden.at("input_gradient"), tolerance, prefix + "input gradient");
  const auto parameters = model->named_parameters();
  const auto& gradients = golden.at("gradients");
  EXPECT_EQ(parameters.size(), gradients.size());
  for (const auto& item : parameters) {
    ASSERT_TRUE(gradients.contains(item.key())) << "no parameter " << item.key() << " in PyTorch";
    expect_matches(item.value().grad(), gradients.at(item.key()), tolerance, prefix + item.key());
  }
}

TEST(AutoencoderGolden, MatchesPyTorch) {
  const auto cases = read_golden();
  ASSERT_EQ(cases.size(), 4u);
  for (const auto& [name, golden] : cases.items()) {
    for (const auto& mode : kModes) {
      SCOPED_TRACE(name + " " + mode.name);
      const auto config = read_config(golden.at("config"));
      const auto& encoder = golden.at("encoder");
      const auto images = draw_golden("images", golden.at("images").get<std::vector<int64_t>>());
      const auto latents = draw_golden("latents", encoder.at("shape").get<std::vector<int64_t>>());
      check(Encoder(config), "encoder.", images, encoder, mode);
      check(Decoder(config), "decoder.", latents, golden.at("decoder"), mode);
    }
  }
}

}  // namespace
}  // namespace nsvq
