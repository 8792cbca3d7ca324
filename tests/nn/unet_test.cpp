// The U-Net against the PyTorch module of golden/unet.py, which also made golden/unet.json.

#include "nsvq/nn/unet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "nsvq/core/device.h"
#include "nsvq/core/error.h"
#include "nsvq/core/precision.h"
#include "nsvq/nn/named_tensors.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"

namespace nsvq {
namespace {

using nlohmann::json;

struct UnetCase {
  UnetConfig config;
  UnetInputs inputs;
  std::vector<int64_t> latents, times, chosen;
};

UnetCase read_case(const json& j) {
  UnetCase one;
  const auto& config = j.at("config");
  config.at("width").get_to(one.config.width);
  config.at("multipliers").get_to(one.config.multipliers);
  config.at("blocks").get_to(one.config.blocks);
  config.at("attention").get_to(one.config.attention);
  config.at("heads").get_to(one.config.heads);
  one.inputs = {j.at("channels"), j.at("labels")};
  j.at("latents").get_to(one.latents);
  j.at("times").get_to(one.times);
  j.at("chosen").get_to(one.chosen);
  return one;
}

void check_unet_case(const json& golden, const Mode& mode) {
  const auto one = read_case(golden);
  Unet model(one.config, one.inputs);
  model->to(mode.dtype);
  fill_golden(*model, "unet.");
  if (mode.format == at::MemoryFormat::ChannelsLast) make_channels_last(*model);
  const auto latents =
      draw_golden("latents", one.latents).to(mode.dtype).contiguous(mode.format).requires_grad_();
  const auto labels = one.chosen.empty() ? torch::Tensor() : at::tensor(one.chosen, at::kLong);
  const auto output = model->forward(latents, at::tensor(one.times, at::kLong), labels);
  ASSERT_EQ(output.sizes().vec(), one.latents);
  expect_golden(output, golden.at("output"), mode.output_tolerance, "output");

  (output * draw_golden("loss", output.sizes()).to(mode.dtype)).sum().backward();
  expect_golden(latents.grad(), golden.at("input_gradient"), mode.gradient_tolerance, "input");
  const auto parameters = model->named_parameters();
  const auto& gradients = golden.at("gradients");
  EXPECT_EQ(parameters.size(), gradients.size());
  for (const auto& item : parameters) {
    ASSERT_TRUE(gradients.contains(item.key())) << "no parameter " << item.key() << " in PyTorch";
    expect_golden(item.value().grad(), gradients.at(item.key()), mode.gradient_tolerance,
                  item.key());
  }
}

TEST(UnetGolden, MatchesPyTorch) {
  std::ifstream file(NSVQ_TESTS_DIR "/golden/unet.json");
  const auto cases = json::parse(file);
  ASSERT_EQ(cases.size(), 3u);
  for (const auto& [name, golden] : cases.items()) {
    for (const auto& mode : kModes) {
      SCOPED_TRACE(name + " " + mode.name);
      check_unet_case(golden, mode);
    }
  }
}

int64_t count_below(const torch::nn::Module& module, const std::string& prefix) {
  int64_t count = 0;
  for (const auto& item : module.named_parameters()) {
    if (item.key().starts_with(prefix)) count += item.value().numel();
  }
  return count;
}

TEST(Unet, ThePapersHasThisManyParameters) {
  const Unet model(UnetConfig{}, UnetInputs{});
  EXPECT_EQ(parameter_count(*model), 258'304'640);
  EXPECT_EQ(count_below(*model, "time_embed."), 1'312'768);
  EXPECT_EQ(count_below(*model, "input_blocks."), 62'274'048);
  EXPECT_EQ(count_below(*model, "middle_block."), 44'060'672);
  EXPECT_EQ(count_below(*model, "output_blocks."), 150'361'600);
  EXPECT_EQ(count_below(*model, "out."), 295'552);
}

TEST(Unet, ClassesAddATableToThePapers) {
  const UnetConfig one_level{.multipliers = {1}, .blocks = 1, .attention = {}};  // of its width
  const auto count = [&](int64_t labels) {
    return parameter_count(*Unet(one_level, UnetInputs{.channels = 4, .labels = labels}));
  };
  EXPECT_EQ(count(1000) - count(0), 1'024'000);
  EXPECT_EQ(count(1001) - count(0), 1'025'024);
}

constexpr UnetInputs kThreeClasses{.channels = 4, .labels = 3};

UnetConfig small_unet() {
  return {.width = 16, .multipliers = {1, 2}, .blocks = 1, .attention = {1}, .heads = 2};
}

TEST(Unet, StartsAtZeroAndTakesAnySizeOfItsStride) {
  Unet model(small_unet(), UnetInputs{.channels = 4});
  for (const auto& size : {std::pair{8, 8}, {2, 6}, {4, 2}}) {
    const auto output = model->forward(at::randn({3, 4, size.first, size.second}),
                                       at::tensor({0, 5, 999}, at::kLong));
    EXPECT_TRUE(at::equal(output, at::zeros_like(output))) << "the last convolution is zero";
  }
}

TEST(Unet, AnImageDoesNotDependOnTheOthersOfItsBatch) {
  torch::manual_seed(3);
  Unet model(small_unet(), kThreeClasses);
  fill_golden(*model, "any.");
  const torch::NoGradGuard no_grad;
  const auto latents = at::randn({3, 4, 4, 4});
  const auto times = at::tensor({7, 300, 999}, at::kLong),
             labels = at::tensor({2, 0, 1}, at::kLong);
  const auto together = model->forward(latents, times, labels);
  for (int64_t i = 0; i < 3; ++i) {
    const auto alone =
        model->forward(latents.narrow(0, i, 1), times.narrow(0, i, 1), labels.narrow(0, i, 1));
    EXPECT_TRUE(at::allclose(alone, together.narrow(0, i, 1), 1e-4, 1e-5));
  }
  const auto others = model->forward(latents, times, at::tensor({1, 0, 1}, at::kLong));
  EXPECT_FALSE(at::allclose(others[0], together[0])) << "another class";
  EXPECT_TRUE(at::allclose(others[1], together[1], 1e-4, 1e-5));
}

void expect_close_in_bf16(c10::Device device) {
  torch::manual_seed(3);
  Unet model(small_unet(), kThreeClasses);
  fill_golden(*model, "any.");
  model->to(device);
  use_gpu_layout(*model);
  const auto latents = at::randn({2, 4, 8, 8}).to(device);
  const auto times = at::tensor({7, 999}, at::kLong).to(device);
  const auto labels = at::tensor({2, 0}, at::kLong).to(device);
  const auto run = [&](Precision precision) {
    model->zero_grad();
    model->precision = precision;
    const auto output = model->forward(latents, times, labels);
    EXPECT_EQ(output.scalar_type(), at::kFloat);
    output.square().mean().backward();
    return std::pair{output.detach(), model->named_parameters()["input_blocks.0.0.weight"].grad()};
  };
  const auto exact = run(Precision::fp32), rounded = run(Precision::bf16);
  const auto error = [](const torch::Tensor& a, const torch::Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  };
  EXPECT_GT(error(rounded.first, exact.first), 0) << "autocast has an effect";
  EXPECT_LT(error(rounded.first, exact.first), 0.03);
  EXPECT_LT(error(rounded.second, exact.second), 0.05);
}

TEST(Unet, RunsUnderAutocast) { expect_close_in_bf16(at::kCPU); }

TEST(Unet, RunsUnderAutocastOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_close_in_bf16({at::kCUDA, 0});
}

/// Output and all gradients, with fused norms and biases that later operators add there.
TEST(Unet, IsTheCpusOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TorchFlags flags({});  // no TF32
  torch::manual_seed(3);
  const auto latents = at::randn({2, 4, 8, 8});
  const auto gradients = [&](c10::Device device) {
    Unet model(small_unet(), kThreeClasses);
    fill_golden(*model, "any.");
    model->to(device);
    use_gpu_layout(*model);
    const auto output =
        model->forward(latents.to(device), at::tensor({7, 999}, at::kLong).to(device),
                       at::tensor({2, 0}, at::kLong).to(device));
    output.square().mean().backward();
    TensorMap found = {{"output", output.detach().cpu()}};
    for (const auto& item : model->named_parameters())
      found[item.key()] = item.value().grad().cpu();
    return found;
  };
  const auto most = [](const torch::Tensor& x) { return x.abs().max().item<double>(); };
  const auto here = gradients(at::kCPU), there = gradients({at::kCUDA, 0});
  double largest = 0;
  for (const auto& [name, tensor] : here) largest = std::max(largest, most(tensor));
  for (const auto& [name, tensor] : here) {
    // What goes into a norm after a shift of whole groups has a gradient of zero but for rounding.
    const double room = 1e-3 * most(tensor) + 1e-7 * largest;
    EXPECT_TRUE(at::allclose(there.at(name), tensor, 1e-3, room))
        << name << ": " << most(there.at(name) - tensor) << " of " << most(tensor) << ", "
        << largest << " in all";
  }
}

/// Without gradients norms add what convolutions leave out, and join skip connections.
TEST(Unet, IsTheSameWithoutGradientsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TorchFlags flags({});  // no TF32
  torch::manual_seed(5);
  Unet model(small_unet(), kThreeClasses);
  fill_golden(*model, "any.");
  model->to(at::kCUDA);
  use_gpu_layout(*model);
  const auto latents =
      at::randn({3, 4, 8, 8}).to(at::kCUDA).contiguous(at::MemoryFormat::ChannelsLast);
  const auto times = at::tensor({7, 500, 999}, at::kLong).to(at::kCUDA);
  const auto labels = at::tensor({2, 0, 1}, at::kLong).to(at::kCUDA);
  const auto expected = model->forward(latents, times, labels).detach();
  const torch::NoGradGuard no_grad;
  const auto found = model->forward(latents, times, labels);
  EXPECT_TRUE(at::allclose(found, expected, 1e-3, 1e-4)) << (found - expected).abs().max();
}

/// Weights that a view is taken of are cast once too, while the cache lives.
TEST(Unet, WeightsAreCastOnce) {
  const auto weight = at::randn({3, 2, 1}).requires_grad_();
  EXPECT_TRUE(autocast_weight(weight).is_same(weight)) << "without autocast";
  const AutocastCacheGuard cached_casts;
  const AutocastGuard autocast(Precision::bf16, at::kCPU);
  const auto cast = autocast_weight(weight);
  EXPECT_EQ(cast.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(autocast_weight(weight).is_same(cast));
}

TEST(Unet, RefusesWhatDoesNotFit) {
  Unet model(small_unet(), kThreeClasses);
  const auto times = at::zeros({2}, at::kLong), labels = at::zeros({2}, at::kLong);
  EXPECT_THROW(model->forward(at::zeros({2, 5, 4, 4}), times, labels), c10::Error);
  EXPECT_THROW(model->forward(at::zeros({2, 4, 3, 4}), times, labels), c10::Error);
  EXPECT_THROW(model->forward(at::zeros({3, 4, 4, 4}), times, labels), c10::Error);
  EXPECT_THROW(model->forward(at::zeros({2, 4, 4, 4}), times), c10::Error);
  EXPECT_THROW(model->forward(at::zeros({2, 4, 4, 4}), times, labels.to(at::kFloat)), c10::Error);
  Unet without(small_unet(), UnetInputs{.channels = 4});
  EXPECT_THROW(without->forward(at::zeros({2, 4, 4, 4}), times, labels), c10::Error);
}

TEST(Unet, SettingsThatNoNetworkCanBeMadeOfAreNamed) {
  const auto error = [](auto change) {
    auto config = small_unet();
    change(config);
    return error_of<UserError>([&] { check_unet(config); });
  };
  EXPECT_EQ(error([](auto& c) { c.width = 15; }).substr(0, 10), "unet.width");
  EXPECT_NE(error([](auto& c) { c.attention = {0, 2}; }).find("level 2"), std::string::npos);
  EXPECT_NE(error([](auto& c) { c.heads = 3; }).find("unet.heads 3"), std::string::npos);
  EXPECT_NE(error([](auto& c) { c.blocks = 0; }).find("unet.blocks"), std::string::npos);
}

TEST(TimeEmbedding, IsCosinesThenSines) {
  const auto waves = time_embedding(at::tensor({0, 1000}, at::kLong), 4);
  ASSERT_EQ(waves.sizes(), (std::vector<int64_t>{2, 4}));
  const std::vector<double> expected = {
      1, 1, 0, 0, std::cos(1000.0), std::cos(10.0), std::sin(1000.0), std::sin(10.0)};
  EXPECT_TRUE(at::allclose(waves.flatten(), at::tensor(expected, at::kDouble), 1e-9, 1e-9));
  EXPECT_THROW(time_embedding(at::zeros({2}), 5), c10::Error);
}

}  // namespace
}  // namespace nsvq
