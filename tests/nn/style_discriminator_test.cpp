#include "nsvq/nn/style_discriminator.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nsvq/core/error.h"
#include "nsvq/nn/discriminator_kinds.h"
#include "nsvq/nn/layers.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

DiscriminatorConfig style_of(int64_t layers, int64_t width = 4) {
  DiscriminatorConfig config;
  config.layers = layers;
  config.width = width;
  return config;
}

TEST(StyleDiscriminator, OneLogitAnImage) {
  const torch::NoGradGuard no_grad;
  for (const auto& [layers, size] :
       {std::pair<int64_t, int64_t>{1, 2}, {2, 20}, {3, 32}, {4, 48}}) {
    StyleDiscriminatorImpl model(style_of(layers), size);
    for (const int64_t batch : {1, 2, 3, 4, 5, 8}) {
      EXPECT_EQ(model.forward(at::rand({batch, 3, size, size})).sizes(),
                (torch::IntArrayRef{batch, 1, 1, 1}))
          << layers << " layers, " << size;
    }
  }
}

/// By its formula with plain operators; widths double to 8 times the first.
TEST(StyleDiscriminator, EqualsPlainOperators) {
  torch::manual_seed(1);
  StyleDiscriminatorImpl model(style_of(2), 16);
  model.to(at::kDouble);
  const auto images = at::randn({3, 3, 16, 16}, at::kDouble);
  const auto tensors = model.named_parameters();
  const auto conv = [&](const std::string& name, const torch::Tensor& x) {
    const auto weight = tensors[name + ".weight"];
    const auto bias = tensors.contains(name + ".bias") ? tensors[name + ".bias"] : torch::Tensor();
    return at::conv2d(x, weight, bias, 1, weight.size(2) / 2);
  };
  const auto act = [](const torch::Tensor& x) { return at::where(x.gt(0), x, 0.2 * x); };
  const auto halved = [](const torch::Tensor& x) {
    const auto line = at::tensor({1.0, 3.0, 3.0, 1.0}, at::kDouble) / 8;
    const auto down = at::conv2d(at::constant_pad_nd(x.flatten(0, 1).unsqueeze(1), {1, 1, 1, 1}),
                                 at::outer(line, line).view({1, 1, 4, 4}), {}, 2);
    return down.view({x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2});
  };
  auto x = act(conv("first", images));
  for (const std::string name : {"block_0.", "block_1."}) {
    const auto branch = act(conv(name + "widen", halved(act(conv(name + "keep", x)))));
    x = (conv(name + "skip", halved(x)) + branch) / std::sqrt(2.0);
  }
  EXPECT_EQ(x.sizes(), (torch::IntArrayRef{3, 16, 4, 4}));
  // Three images are one group.
  const auto deviation = (x.var(0, /*unbiased=*/false) + 1e-8).sqrt().mean();
  x = at::cat({x, deviation.expand({3, 1, 4, 4})}, 1);
  x = act(conv("last", x)).flatten(1);
  x = act(at::linear(x, tensors["join.weight"], tensors["join.bias"]));
  x = at::linear(x, tensors["judge.weight"], tensors["judge.bias"]);
  EXPECT_TRUE(at::allclose(model.forward(images).flatten(), x.flatten(), 1e-8, 1e-10));
}

TEST(StyleDiscriminator, GradientsReachEveryParameterAlsoByR1) {
  torch::manual_seed(2);
  StyleDiscriminatorImpl model(style_of(2), 16);
  const auto images = at::randn({4, 3, 16, 16}).requires_grad_();
  const auto logits = model.forward(images);
  const auto slope = torch::autograd::grad({logits.sum()}, {images}, {}, /*retain_graph=*/true,
                                           /*create_graph=*/true)
                         .front();
  (at::relu(1 - logits).mean() + slope.square().sum()).backward();
  EXPECT_GT(images.grad().abs().max().item<double>(), 0);
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

TEST(StyleDiscriminator, InitialValuesAreXaviers) {
  torch::manual_seed(5);
  StyleDiscriminatorImpl model(style_of(2, 32), 16);
  const auto parameters = model.named_parameters();
  const double bound = std::sqrt(6.0 / (9 * (32 + 64)));
  const auto weight = parameters["block_0.widen.weight"].abs().max().item<double>();
  EXPECT_GT(weight, 0.98 * bound);
  EXPECT_LE(weight, bound);
  EXPECT_EQ(parameters["block_0.widen.bias"].abs().max().item<double>(), 0);
  EXPECT_FALSE(parameters.contains("block_0.skip.bias"));
}

TEST(StyleDiscriminator, SizesThatDoNotHalveAreRefused) {
  expect_contains(error_of([] { StyleDiscriminatorImpl(style_of(3), 20); }),
                  {"adversarial.layers: stylegan halves images 3 times", "multiple of 8", "20"});
  EXPECT_THROW(StyleDiscriminatorImpl(style_of(1), 15), UserError);
  EXPECT_THROW(StyleDiscriminatorImpl(style_of(9), 512), UserError);
  expect_contains(error_of([] { StyleDiscriminatorImpl(style_of(1, 64), 512); }),
                  {"adversarial.layers", "256x256 pixels of 128 channels", "1073741824 numbers"});
  StyleDiscriminatorImpl model(style_of(2), 16);
  expect_contains(error_of([&] {
                    model.forward(at::zeros({1, 3, 16, 32}));
                  }),
                  {"adversarial.network", "16x16", "16x32"});
}

TEST(StyleDiscriminator, UsualLayersEndAtFourPixelsOrMore) {
  for (const auto& [size, layers] : std::vector<std::pair<int64_t, int64_t>>{
           {4, 1}, {8, 1}, {16, 2}, {96, 4}, {100, 2}, {128, 5}, {256, 6}, {15, 1}, {4096, 8}}) {
    EXPECT_EQ(style_layers(size), layers) << size;
  }
}

TEST(BatchDeviation, IsTakenOverGroupsOfUpToFour) {
  torch::manual_seed(3);
  const auto images = at::randn({8, 2, 3, 5}, at::kDouble);
  const auto all = with_batch_deviation(images);
  ASSERT_EQ(all.sizes(), (torch::IntArrayRef{8, 3, 3, 5}));
  EXPECT_TRUE(at::equal(all.narrow(1, 0, 2), images));
  for (const int64_t group : {0, 1}) {
    const auto own = images.slice(0, group, 8, 2);
    const auto expected = (own.var(0, /*unbiased=*/false) + 1e-8).sqrt().mean();
    const auto found = all.slice(0, group, 8, 2).select(1, 2);
    EXPECT_TRUE(at::allclose(found, expected.expand_as(found), 1e-10, 0));
  }
  // Five images make no groups of two to four.
  const auto alone = with_batch_deviation(images.slice(0, 0, 5)).select(1, 2);
  EXPECT_TRUE(at::allclose(alone, at::full_like(alone, 1e-4), 1e-8, 0));
  EXPECT_EQ(with_batch_deviation(images.slice(0, 0, 0)).size(0), 0);
}

TEST(DiscriminatorKinds, AreMadeByNameForASize) {
  for (const auto& kind : discriminator_kinds()) {
    SCOPED_TRACE(kind.name);
    const auto network = kind.make(style_of(2), 32);
    EXPECT_EQ(network->forward(at::rand({4, 3, 32, 32})).size(0), 4);
    bool batch_norm = false;
    for (const auto& item : network->named_buffers()) {
      batch_norm |= item.key().find("running_mean") != std::string::npos;
    }
    EXPECT_EQ(batch_norm, kind.batch_norm);
  }
  EXPECT_EQ(parameter_count(*discriminator_kind("patch").make({}, 128)), 2765633);
  EXPECT_THROW(discriminator_kind("patch").make(style_of(3), 16), UserError);
  expect_contains(error_of([] { discriminator_kind("style"); }),
                  {"adversarial.network", "stylegan"});
}

}  // namespace
}  // namespace nsvq
