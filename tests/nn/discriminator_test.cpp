#include "nsvq/nn/discriminator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nsvq/core/error.h"
#include "nsvq/nn/layers.h"

namespace nsvq {
namespace {

using nlohmann::json;

DiscriminatorConfig sized(int64_t layers, int64_t width = 4) {
  DiscriminatorConfig config;
  config.layers = layers;
  config.width = width;
  return config;
}

/// `formula` of golden/discriminator.py.
torch::Tensor formula(torch::IntArrayRef shape, int64_t phase) {
  const auto i = at::arange(c10::multiply_integers(shape), at::kLong);
  const auto whole = (((7 * i + 31) * i + 17) * i + 101 * phase).remainder(2003);
  return (whole.to(at::kDouble) / 1001 - 1).reshape(shape);
}

void fill(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  int64_t phase = 0;
  for (const auto& item : module.named_parameters()) {
    const auto& p = item.value();
    const bool matrix = p.dim() > 1;
    const double scale = matrix ? std::sqrt(3 / static_cast<double>(p[0].numel())) : 0.25;
    p.copy_((formula(p.sizes(), phase++) * scale).to(at::kFloat));
    // Only the norms have a weight of one dimension.
    if (!matrix && item.key().ends_with("weight")) p.add_(1);
  }
}

/// Norm, projection on a fixed vector and samples, relative to the size of the tensor.
void expect_matches(const torch::Tensor& actual, const json& golden, double tolerance,
                    const std::string& what) {
  ASSERT_TRUE(actual.defined()) << what;
  const auto flat = actual.detach().to(at::kDouble).contiguous().flatten();
  const auto norm = golden.at("norm").get<double>();
  EXPECT_NEAR(flat.norm().item<double>(), norm, tolerance * norm) << what;
  EXPECT_NEAR((flat * formula(flat.sizes(), 7)).sum().item<double>(),
              golden.at("projection").get<double>(), tolerance * norm)
      << what;
  const auto samples = golden.at("samples").get<std::vector<double>>();
  const auto count = static_cast<int64_t>(samples.size());
  ASSERT_GT(count, 0) << what;
  const double size = norm / std::sqrt(static_cast<double>(flat.numel()));
  for (int64_t i = 0; i < count; ++i) {
    EXPECT_NEAR(flat[i * flat.numel() / count].item<double>(), samples[i],
                tolerance * (size + std::abs(samples[i])))
        << what << " sample " << i;
  }
}

void check_parity(const json& golden, torch::ScalarType dtype, torch::MemoryFormat format,
                  double tolerance) {
  Discriminator model(sized(golden.at("layers"), golden.at("width")));
  model->to(dtype);
  fill(*model);
  const auto images = formula(golden.at("images").get<std::vector<int64_t>>(), 1)
                          .to(at::kFloat)
                          .to(dtype)
                          .contiguous(format)
                          .requires_grad_();
  const auto output = model->forward(images);
  ASSERT_EQ(output.sizes().vec(), golden.at("shape").get<std::vector<int64_t>>());
  expect_matches(output, golden.at("output"), tolerance, "output");

  (output * formula(output.sizes(), 2).to(dtype)).sum().backward();
  expect_matches(images.grad(), golden.at("input_gradient"), 10 * tolerance, "input gradient");
  const auto& gradients = golden.at("gradients");
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters.size(), gradients.size());
  for (const auto& item : parameters)
    expect_matches(item.value().grad(), gradients.at(item.key()), 10 * tolerance, item.key());

  const auto buffers = model->named_buffers();
  for (const auto& [name, running] : golden.at("running").items())
    expect_matches(buffers[name], running, tolerance, name);
  model->eval();
  expect_matches(model->forward(images), golden.at("evaluation_output"), tolerance, "evaluation");
}

TEST(DiscriminatorGolden, OutputsGradientsAndStatisticsMatchPyTorch) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/discriminator.json");
  const auto cases = json::parse(file);
  ASSERT_EQ(cases.size(), 4u);
  for (const auto& golden : cases) {
    SCOPED_TRACE(golden.at("layers").get<int>());
    check_parity(golden, at::kDouble, at::MemoryFormat::Contiguous, 1e-10);
    check_parity(golden, at::kFloat, at::MemoryFormat::Contiguous, 1e-5);
    check_parity(golden, at::kFloat, at::MemoryFormat::ChannelsLast, 1e-5);
  }
}

TEST(Discriminator, DefaultHasTheSizeOfTheBaseline) {
  Discriminator model(DiscriminatorConfig{});
  EXPECT_EQ(parameter_count(*model), 2765633);
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(model->forward(at::zeros({1, 3, 128, 128})).sizes(),
            (torch::IntArrayRef{1, 1, 14, 14}));
}

TEST(Discriminator, TensorsHaveTheNamesOfTaming) {
  Discriminator model(sized(3));
  std::vector<std::string> parameters, buffers;
  for (const auto& item : model->named_parameters()) parameters.push_back(item.key());
  for (const auto& item : model->named_buffers()) buffers.push_back(item.key());
  EXPECT_EQ(parameters,
            (std::vector<std::string>{
                "main.0.weight", "main.0.bias", "main.2.weight", "main.3.weight", "main.3.bias",
                "main.5.weight", "main.6.weight", "main.6.bias", "main.8.weight", "main.9.weight",
                "main.9.bias", "main.11.weight", "main.11.bias"}));
  std::vector<std::string> expected;
  for (const char* norm : {"main.3.", "main.6.", "main.9."})
    for (const char* name : {"running_mean", "running_var", "num_batches_tracked"})
      expected.push_back(std::string(norm) + name);
  EXPECT_EQ(buffers, expected);
}

TEST(Discriminator, ChannelsStopAtEightTimesTheWidth) {
  const auto parameters = Discriminator(sized(5, 2))->named_parameters();
  EXPECT_EQ(parameters["main.2.weight"].sizes(), (torch::IntArrayRef{4, 2, 4, 4}));
  EXPECT_EQ(parameters["main.8.weight"].sizes(), (torch::IntArrayRef{16, 8, 4, 4}));
  EXPECT_EQ(parameters["main.14.weight"].sizes(), (torch::IntArrayRef{16, 16, 4, 4}));
  EXPECT_EQ(parameters["main.17.weight"].sizes(), (torch::IntArrayRef{1, 16, 4, 4}));
}

TEST(Discriminator, InitialValues) {
  torch::manual_seed(5);
  const auto parameters = Discriminator(DiscriminatorConfig{})->named_parameters();
  for (const char* name : {"main.2.weight", "main.5.weight", "main.8.weight"}) {
    EXPECT_NEAR(parameters[name].mean().item<double>(), 0, 0.0005) << name;
    EXPECT_NEAR(parameters[name].std().item<double>(), 0.02, 0.0003) << name;
  }
  const auto gamma = at::cat({parameters["main.6.weight"], parameters["main.9.weight"]});
  EXPECT_NEAR(gamma.mean().item<double>(), 1, 0.003);
  EXPECT_NEAR(gamma.std().item<double>(), 0.02, 0.002);
  EXPECT_EQ(parameters["main.9.bias"].abs().max().item<double>(), 0);
  // Biases of convolutions keep torch's default, uniform within 1 / sqrt(fan in).
  const auto bias = parameters["main.0.bias"].abs().max().item<double>();
  EXPECT_GT(bias, 0.8 / std::sqrt(48.0));
  EXPECT_LE(bias, 1 / std::sqrt(48.0));

  torch::manual_seed(5);
  const auto again = Discriminator(DiscriminatorConfig{})->named_parameters();
  for (const auto& item : parameters)
    EXPECT_TRUE(at::equal(item.value(), again[item.key()])) << item.key();
}

TEST(Discriminator, SmallestImagesGiveOnePatch) {
  const torch::NoGradGuard no_grad;
  for (int64_t layers = 1; layers <= 4; ++layers) {
    Discriminator model(sized(layers));
    const int64_t least = int64_t{3} << layers;
    EXPECT_EQ(model->forward(at::zeros({1, 3, least, least})).sizes(),
              (torch::IntArrayRef{1, 1, 1, 1}));
    EXPECT_THROW(model->forward(at::zeros({1, 3, least, least - 1})), UserError);
    EXPECT_THROW(model->forward(at::zeros({1, 3, least - 1, least})), UserError);
  }
}

TEST(Discriminator, RefusalNamesTheSettings) {
  try {
    Discriminator(sized(3))->check_image_size(16, 32);
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const char* part : {"adversarial.layers", "data.size", "24x24", "16x32"})
      EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  for (const int64_t layers : {-1, 0, 9}) EXPECT_THROW(Discriminator{sized(layers)}, UserError);
  EXPECT_THROW(Discriminator(sized(3, 0)), UserError);
  EXPECT_THROW(Discriminator(sized(1))->forward(at::zeros({1, 1, 32, 32})), c10::Error);
  EXPECT_THROW(Discriminator(sized(1))->forward(at::zeros({3, 32, 32})), c10::Error);
}

TEST(Discriminator, LeavesItsInputAndCountsItsBatches) {
  Discriminator model(sized(2));
  const auto images = at::rand({2, 3, 17, 13}), before = images.clone();
  model->forward(images);
  model->forward(images);
  EXPECT_TRUE(at::equal(images, before));
  EXPECT_EQ(model->named_buffers()["main.3.num_batches_tracked"].item<int64_t>(), 2);
  model->eval();
  model->forward(images);
  EXPECT_EQ(model->named_buffers()["main.3.num_batches_tracked"].item<int64_t>(), 2);
}

TEST(Discriminator, NanReachesTheLogits) {
  const torch::NoGradGuard no_grad;
  auto images = at::rand({2, 3, 16, 16});
  images[0][0][8][8] = std::nan("");
  EXPECT_TRUE(Discriminator(sized(2))->forward(images).isnan().any().item<bool>());
}

}  // namespace
}  // namespace nsvq
