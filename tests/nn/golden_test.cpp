// Parity with the PyTorch modules of golden/autoencoder.py and, for the families of other programs,
// golden/families.py, which also made golden/autoencoder.json and golden/families.json.
#include "tests/nn/golden.h"

#include <algorithm>
#include <fstream>

#include "nsvq/nn/autoencoder.h"

namespace nsvq {
namespace {

using nlohmann::json;

json read_golden(const std::string& name) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/" + name);
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
  config.family = j.value("family", config.family);
  config.z_channels = j.value("z_channels", config.z_channels);
  config.latent_kernel = j.value("latent_kernel", config.latent_kernel);
  config.halvings = j.value("halvings", config.halvings);
  config.haar = j.value("haar", config.haar);
  return config;
}

template <typename Model>
void check(Model model, const std::string& prefix, torch::Tensor inputs, const json& golden,
           const Mode& mode) {
  model->to(mode.dtype);
  fill_golden(*model, prefix);
  inputs = inputs.to(mode.dtype).contiguous(mode.format).requires_grad_();
  const auto output = model->forward(inputs);
  ASSERT_EQ(output.sizes().vec(), golden.at("shape").get<std::vector<int64_t>>());
  expect_golden(output, golden.at("output"), mode.output_tolerance, prefix + "output");

  (output * draw_golden("loss", output.sizes()).to(mode.dtype)).sum().backward();
  const double tolerance = mode.gradient_tolerance;
  expect_golden(inputs.grad(), golden.at("input_gradient"), tolerance, prefix + "input gradient");
  const auto parameters = model->named_parameters();
  const auto& gradients = golden.at("gradients");
  EXPECT_EQ(parameters.size(), gradients.size());
  double largest = 0;
  for (const auto& gradient : gradients) {
    largest = std::max(largest, gradient.at("norm").get<double>());
  }
  for (const auto& item : parameters) {
    ASSERT_TRUE(gradients.contains(item.key())) << "no parameter " << item.key() << " in PyTorch";
    const torch::Tensor gradient = item.value().grad();
    const json& wanted = gradients.at(item.key());
    if (wanted.at("norm").get<double>() < 1e-12 * largest) {
      // Zero by the maths (a norm takes off the bias before it): rounding errors of larger sums.
      EXPECT_LT(gradient.norm().item<double>(), 1e-3 * tolerance * largest) << item.key();
      continue;
    }
    expect_golden(gradient, wanted, tolerance, prefix + item.key());
  }
}

void check_all(const json& cases) {
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

TEST(AutoencoderGolden, MatchesPyTorch) {
  const auto cases = read_golden("autoencoder.json");
  ASSERT_EQ(cases.size(), 4u);
  check_all(cases);
}

TEST(AutoencoderGolden, FamiliesMatchTheProgramsTheyComeFrom) {
  const auto cases = read_golden("families.json");
  ASSERT_EQ(cases.size(), 10u);
  check_all(cases);
}

}  // namespace
}  // namespace nsvq
