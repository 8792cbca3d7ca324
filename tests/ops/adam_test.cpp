#include "nsvq/ops/adam/adam.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "nsvq/core/device.h"

namespace nsvq::adam_test {
namespace {

using Tensors = std::vector<torch::Tensor>;

constexpr AdamOptions kOptions{
    .lr = 3e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .average_decay = 0.99};

Tensors copies(const Tensors& tensors, c10::Device device) {
  Tensors result;
  for (const auto& one : tensors) result.push_back(one.detach().clone().to(device));
  return result;
}

AdamTensors copies(const AdamTensors& t, c10::Device device) {
  return {copies(t.parameters, device), copies(t.gradients, device), copies(t.moments1, device),
          copies(t.moments2, device),   copies(t.steps, device),     copies(t.averages, device)};
}

Tensors changing(const AdamTensors& t) {
  Tensors all;
  for (const auto* list : {&t.parameters, &t.moments1, &t.moments2, &t.steps, &t.averages}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  return all;
}

/// Slots of the given shapes, with values as in the middle of a training.
AdamTensors drawn_like(const Tensors& shapes) {
  torch::manual_seed(3);
  AdamTensors t;
  for (size_t i = 0; i < shapes.size(); ++i) {
    t.parameters.push_back(at::randn_like(shapes[i]));
    t.gradients.push_back(at::randn_like(shapes[i]));
    t.moments1.push_back(at::randn_like(shapes[i]) * 0.1);
    t.moments2.push_back(at::rand_like(shapes[i]) * 0.1);
    t.steps.push_back(at::full({}, static_cast<double>(i % 7)));
    t.averages.push_back(at::randn_like(shapes[i]));
  }
  return t;
}

/// Odd sizes, an empty tensor, several chunks, 4-d tensors in either order.
Tensors shapes() {
  Tensors all;
  for (const int64_t size : {1, 31, 33, 0, 4097, 12288, 20001}) all.push_back(at::empty({size}));
  all.push_back(at::empty({}));
  all.push_back(at::empty({6, 5, 3, 3}));
  all.push_back(at::empty({6, 5, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast));
  all.push_back(at::empty({64, 32}).t());
  return all;
}

void expect_equal(const AdamTensors& one, const AdamTensors& other) {
  const auto a = changing(one), b = changing(other);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i], b[i])) << i;
}

/// Expects errors below 10^-6 of each number, or of the largest where terms cancel.
void expect_near(const AdamTensors& ours, const AdamTensors& plain) {
  const auto a = changing(ours), b = changing(plain);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (b[i].numel() == 0) continue;
    const double most = b[i].abs().max().item<double>();
    EXPECT_TRUE(at::allclose(a[i].cpu(), b[i], 1e-6, 1e-6 * most)) << i << " " << b[i].sizes();
    EXPECT_EQ(a[i].strides(), b[i].strides());
  }
}

/// Compares several steps on a GPU with PyTorch's operators on the CPU.
void expect_as_on_the_cpu(AdamTensors ours, AdamTensors plain) {
  const auto fine = at::zeros({}, at::device(at::kCUDA).dtype(at::kBool));
  for (int step = 0; step < 3; ++step) {
    adam_step(ours, kOptions, step == 1 ? fine : torch::Tensor());
    adam_step_reference(plain, kOptions, {});
  }
  expect_near(ours, plain);
}

/// Options with learning-rate factors of some tensors, a scheduled rate, clipped gradients and
/// weight decay.
AdamTensors with_factors(AdamTensors t) {
  for (size_t i = 0; i < t.parameters.size(); ++i) t.lr_scales.push_back(i % 3 == 1 ? 10 : 0.5);
  const auto device = t.parameters[0].device();
  t.lr_factor = at::full({}, 0.25, at::device(device).dtype(at::kDouble));
  t.gradient_factor = at::full({}, 0.125, at::device(device).dtype(at::kFloat));
  t.average_decay = at::full({}, 0.75, at::device(device).dtype(at::kFloat));
  return t;
}

constexpr AdamOptions kDecaying{.lr = 3e-3,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .weight_decay = 0.1,
                                .average_decay = 0.99};

/// The formula of golden/adam.py.
torch::Tensor formula(at::IntArrayRef shape, int64_t phase) {
  const auto i = at::arange(c10::multiply_integers(shape));
  const auto whole = (((i * 7 + 31) * i + 17) * i + 101 * phase).remainder(2003);
  return (whole.to(at::kDouble) / 1001 - 1).to(at::kFloat).reshape(shape);
}

void expect_near(const torch::Tensor& value, const nlohmann::json& expected, const char* name) {
  const auto numbers = at::tensor(expected.get<std::vector<double>>(), at::kDouble);
  const auto most = numbers.abs().max().item<double>();
  const auto ours = value.cpu().contiguous().flatten().to(at::kDouble);
  EXPECT_LE((ours - numbers).abs().max().item<double>(), 1e-6 * most) << name;
}

/// Compares some steps with a case of golden/adam.json, whose values are torch.optim.Adam's in
/// fp64.
void expect_golden(const nlohmann::json& one, const AdamOptions& options, c10::Device device,
                   at::MemoryFormat format) {
  const auto shape = one.at("shape").get<std::vector<int64_t>>();
  const auto before = one.at("before").get<double>();
  const auto put = [&](const torch::Tensor& tensor) {
    return Tensors{tensor.to(device).contiguous(format)};
  };
  const double scale = before > 0 ? 0.125 : 0;
  AdamTensors t{.parameters = put(formula(shape, 1)),
                .gradients = {},
                .moments1 = put(formula(shape, 3) * scale),
                .moments2 = put(formula(shape, 4).square() * scale),
                .steps = {at::full({}, before).to(device)},
                .averages = put(formula(shape, 2))};
  for (int64_t step = 0; step < one.at("steps"); ++step) {
    t.gradients = put(formula(shape, 10 + step));
    adam_step(t, options, {});
  }
  expect_near(t.parameters[0], one.at("parameter"), "parameter");
  expect_near(t.moments1[0], one.at("moment1"), "moment1");
  expect_near(t.moments2[0], one.at("moment2"), "moment2");
  expect_near(t.averages[0], one.at("average"), "average");
  EXPECT_EQ(t.steps[0].item<double>(), before + one.at("steps").get<double>());
}

void expect_all_golden(c10::Device device) {
  std::ifstream in(NSVQ_TESTS_DIR "/golden/adam.json");
  const auto golden = nlohmann::json::parse(in);
  const auto& o = golden.at("options");
  const AdamOptions options{.lr = o.at("lr"),
                            .beta1 = o.at("beta1"),
                            .beta2 = o.at("beta2"),
                            .eps = o.at("eps"),
                            .average_decay = o.at("average_decay")};
  ASSERT_EQ(golden.at("cases").size(), 5u);
  for (const auto& one : golden.at("cases")) {
    SCOPED_TRACE(one.at("shape").dump() + " after " + one.at("before").dump());
    expect_golden(one, options, device, at::MemoryFormat::Contiguous);
    if (one.at("shape").size() == 4) {
      expect_golden(one, options, device, at::MemoryFormat::ChannelsLast);
    }
  }
}

TEST(Adam, IsPyTorchsOnTheCpu) { expect_all_golden(at::kCPU); }

TEST(Adam, IsPyTorchsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_all_golden(at::kCUDA);
}

TEST(Adam, TakesGradientsInAnotherOrderOfMemory) {
  const auto ours = drawn_like(shapes());
  auto plain = copies(ours, at::kCPU);
  auto others = ours;
  others.gradients[9] = others.gradients[9].contiguous();
  others.gradients[10] = others.gradients[10].contiguous();
  adam_step(others, kOptions, {});
  adam_step_reference(plain, kOptions, {});
  expect_equal(ours, plain);
}

/// Compares each tensor, at its own rate, with torch's AdamW.
TEST(Adam, TakesFactorsAndWeightDecay) {
  const auto plain = drawn_like(shapes());
  const auto ours = with_factors(copies(plain, at::kCPU));
  adam_step(ours, kDecaying, {});
  for (size_t i = 0; i < plain.parameters.size(); ++i) {
    const auto steps = plain.steps[i] + 1;
    const double lr = kDecaying.lr * ours.lr_scales[i] * 0.25;
    at::_fused_adamw_({plain.parameters[i]}, {plain.gradients[i] * 0.125}, {plain.moments1[i]},
                      {plain.moments2[i]}, {}, {steps}, lr, kDecaying.beta1, kDecaying.beta2,
                      kDecaying.weight_decay, kDecaying.eps, false, false);
    EXPECT_TRUE(at::equal(ours.parameters[i], plain.parameters[i])) << i;
    EXPECT_TRUE(at::equal(ours.moments2[i], plain.moments2[i])) << i;
  }
}

TEST(Adam, FactorsOfOneChangeNothing) {
  const auto plain = drawn_like(shapes());
  auto ours = copies(plain, at::kCPU);
  ours.lr_scales.assign(ours.parameters.size(), 1);
  ours.lr_factor = at::ones({}, at::kDouble);
  adam_step(ours, kOptions, {});
  adam_step(plain, kOptions, {});
  expect_equal(ours, plain);
}

TEST(Adam, AveragesAlone) {
  const auto ours = drawn_like(shapes()), plain = copies(ours, at::kCPU);
  average_step(ours.parameters, ours.averages, 0.9, {});
  at::_foreach_lerp_(plain.averages, plain.parameters, 1 - 0.9);
  expect_equal(ours, plain);
  average_step(ours.parameters, ours.averages, 0.9, at::ones({}, at::kBool));
  expect_equal(ours, plain);
  average_step(ours.parameters, ours.averages, 0, {});
  for (size_t i = 0; i < ours.averages.size(); ++i) {
    EXPECT_TRUE(at::equal(ours.averages[i], ours.parameters[i]));
  }
}

TEST(Adam, LeavesAllAsItWasIfBad) {
  const auto ours = drawn_like(shapes()), before = copies(ours, at::kCPU);
  adam_step(ours, kOptions, at::ones({}, at::kBool));
  expect_equal(ours, before);
}

TEST(Adam, WithoutAverages) {
  auto ours = drawn_like(shapes());
  const auto plain = copies(ours, at::kCPU);
  ours.averages.clear();
  adam_step(ours, kOptions, {});
  adam_step_reference(plain, kOptions, {});
  for (size_t i = 0; i < ours.parameters.size(); ++i) {
    EXPECT_TRUE(at::equal(ours.parameters[i], plain.parameters[i]));
  }
  adam_step({}, kOptions, {});
  average_step({}, {}, 0.9, {});
}

TEST(Adam, MarksParametersAsChanged) {
  auto ours = drawn_like({at::empty({3})});
  ours.parameters[0].requires_grad_();
  const auto product = ours.parameters[0].square().sum();
  adam_step(ours, kOptions, {});
  EXPECT_THROW(product.backward(), c10::Error);
}

TEST(Adam, RefusesWhatDoesNotFit) {
  const auto expect_refused = [](const auto& change) {
    auto t = drawn_like({at::empty({4, 3})});
    change(t);
    EXPECT_THROW(adam_step(t, kOptions, {}), c10::Error);
  };
  expect_refused([](AdamTensors& t) { t.moments1.clear(); });
  expect_refused([](AdamTensors& t) { t.gradients.clear(); });
  expect_refused([](AdamTensors& t) { t.steps[0] = at::zeros({2}); });
  expect_refused([](AdamTensors& t) { t.averages[0] = at::zeros({3, 4}).t(); });
  expect_refused([](AdamTensors& t) { t.moments2[0] = t.moments2[0].to(at::kDouble); });
  expect_refused([](AdamTensors& t) { t.lr_scales = {1, 2}; });
  expect_refused([](AdamTensors& t) { t.lr_factor = at::ones({}); });
  expect_refused([](AdamTensors& t) { t.gradient_factor = at::ones({2}); });
  expect_refused([](AdamTensors& t) { t.parameters[0] = at::zeros({4, 6}).slice(1, 0, 6, 2); });
  const auto t = drawn_like({at::empty({4})});
  EXPECT_THROW(adam_step(t, kOptions, at::zeros({})), c10::Error);
}

TEST(Adam, EqualsTheCpuOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto plain = drawn_like(shapes());
  expect_as_on_the_cpu(copies(plain, at::kCUDA), plain);
}

TEST(Adam, TakesFactorsAndWeightDecayOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  auto plain = drawn_like(shapes());
  const auto ours = with_factors(copies(plain, at::kCUDA));
  plain = with_factors(plain);
  for (int step = 0; step < 3; ++step) {
    adam_step(ours, kDecaying, {});
    adam_step_reference(plain, kDecaying, {});
  }
  expect_near(ours, plain);
}

/// A decay given as a tensor replaces the option.
TEST(Adam, TakesTheAveragesDecayAsATensor) {
  const auto before = drawn_like(shapes());
  auto ours = copies(before, at::kCPU);
  const auto plain = copies(before, at::kCPU);
  ours.average_decay = at::full({}, 0.25);
  adam_step(ours, kOptions, {});
  auto options = kOptions;
  options.average_decay = 0.25;
  adam_step(plain, options, {});
  expect_equal(ours, plain);
  ours.average_decay = at::full({}, 0.25, at::kDouble);
  EXPECT_THROW(adam_step(ours, kOptions, {}), c10::Error);
}

TEST(Adam, FactorsOfOneChangeNothingOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto plain = copies(drawn_like(shapes()), at::kCUDA);
  auto ours = copies(plain, at::kCUDA);
  ours.lr_scales.assign(ours.parameters.size(), 1);
  ours.lr_factor = at::ones({}, at::device(at::kCUDA).dtype(at::kDouble));
  ours.gradient_factor = at::ones({}, at::device(at::kCUDA).dtype(at::kFloat));
  adam_step(ours, kOptions, {});
  adam_step(plain, kOptions, {});
  expect_equal(ours, plain);
}

TEST(Adam, WithoutAveragesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  auto plain = drawn_like(shapes());
  plain.averages.clear();
  expect_as_on_the_cpu(copies(plain, at::kCUDA), plain);
}

TEST(Adam, OfManyTensorsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t count : {300, 480, 481, 1100}) {
    Tensors many;
    for (int64_t i = 0; i < count; ++i) many.push_back(at::empty({(i * 37) % 5000}));
    const auto plain = drawn_like(many);
    expect_as_on_the_cpu(copies(plain, at::kCUDA), plain);
  }
}

/// Each list in turn holds views that begin 4 bytes into their memory.
TEST(Adam, OfViewsThatAreNotAlignedOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  using List = Tensors AdamTensors::*;
  for (const List list : {&AdamTensors::parameters, &AdamTensors::gradients, &AdamTensors::moments1,
                          &AdamTensors::moments2, &AdamTensors::averages}) {
    const auto plain = drawn_like({at::empty({4097}), at::empty({33}), at::empty({9000})});
    auto ours = copies(plain, at::kCUDA);
    for (auto& one : ours.*list) {
      one = at::cat({at::zeros({1}, one.options()), one}).slice(0, 1);
    }
    expect_as_on_the_cpu(ours, plain);
  }
}

TEST(Adam, LeavesAllAsItWasIfBadOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto before = drawn_like(shapes()), ours = copies(before, at::kCUDA);
  const auto bad = at::ones({}, at::device(at::kCUDA).dtype(at::kBool));
  adam_step(ours, kOptions, bad);
  average_step(ours.parameters, ours.averages, 0.9, bad);
  expect_equal(copies(ours, at::kCPU), before);
}

TEST(Adam, AveragesAloneOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto plain = drawn_like(shapes()), ours = copies(plain, at::kCUDA);
  for (const double decay : {0.99, 0.3, 0.}) {
    average_step(ours.parameters, ours.averages, decay, {});
    average_step(plain.parameters, plain.averages, decay, {});
    expect_near(ours, plain);
  }
}

}  // namespace
}  // namespace nsvq::adam_test
