#include "nsvq/nn/transformer.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <cmath>
#include <string>

#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/core/tensor_map.h"
#include "nsvq/nn/gated_mlp.h"
#include "nsvq/nn/linear_cross_entropy.h"
#include "tests/nn/golden.h"

namespace nsvq {
namespace {

using torch::Tensor;

/// A transformer with golden weights.
struct Network : torch::nn::Module {
  explicit Network(const TransformerOptions& options) : blocks(*this, options) {
    fill_golden(*this, "transformer.");
  }
  Transformer blocks;
};

double furthest(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TransformerOptions rotary_options() {
  return {.width = 24, .depth = 3, .heads = 3, .hidden = 20, .causal = true};
}

TransformerOptions modulated_options() {
  return {.width = 20,
          .depth = 2,
          .heads = 2,
          .hidden = 30,
          .norm = NormKind::layer,
          .eps = 1e-6,
          .query_norm = QueryNorm::head,
          .gated = false,
          .bias = true,
          .modulated = true,
          .causal = true};
}

/// Outputs of x, a token at a time after a prefix, with a cache.
Tensor cached_outputs(Network& network, const Tensor& x, const TokenContext& whole,
                      int64_t prefix) {
  const torch::NoGradGuard no_grad;
  KvCache cache(x.size(1));
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < x.size(1); begin += begin == 0 ? prefix : 1) {
    const int64_t count = begin == 0 ? prefix : 1;
    TokenContext context{.cache = &cache, .places = at::arange(begin, begin + count, at::kLong)};
    if (whole.rotation.defined()) context.rotation = whole.rotation.narrow(0, begin, count);
    if (whole.condition.defined()) context.condition = whole.condition.narrow(1, begin, count);
    outputs.push_back(network.blocks.forward(x.narrow(1, begin, count), context));
  }
  return at::cat(outputs, 1);
}

TEST(Transformer, CachedDecodingEqualsAFullForwardAtEveryPosition) {
  const auto x = draw_golden("tokens", {2, 13, 24});
  const auto rotation = grid_rotation(1, 13, 8, at::TensorOptions().dtype(at::kFloat));
  Network rotary(rotary_options());
  const TokenContext turned{.rotation = rotation};
  const auto full = rotary.blocks.forward(x, turned);
  for (const int64_t prefix : {1, 2, 5}) {
    EXPECT_LT(furthest(cached_outputs(rotary, x, turned, prefix), full), 1e-5) << prefix;
  }
  Network modulated(modulated_options());
  const auto y = draw_golden("others", {3, 9, 20});
  const TokenContext told{.condition = draw_golden("condition", {3, 9, 20})};
  EXPECT_LT(furthest(cached_outputs(modulated, y, told, 2), modulated.blocks.forward(y, told)),
            1e-5);
}

TEST(Transformer, CausalBlocksDoNotSeeLaterTokens) {
  auto options = rotary_options();
  auto x = draw_golden("tokens", {1, 7, 24});
  auto changed = x.clone();
  changed.select(1, 4).add_(1);
  const auto difference = [&](Network& network) {
    return (network.blocks.forward(x, {}) - network.blocks.forward(changed, {})).abs().sum(2)[0];
  };
  Network causal(options);
  const auto ahead = difference(causal);
  EXPECT_EQ(ahead.narrow(0, 0, 4).max().item<double>(), 0);
  EXPECT_GT(ahead.narrow(0, 4, 3).min().item<double>(), 1e-4);
  options.causal = false;
  Network both(options);
  EXPECT_GT(difference(both).min().item<double>(), 1e-4);
  KvCache cache(7);
  EXPECT_THROW(both.blocks.forward(x, {.cache = &cache, .places = at::arange(7)}), c10::Error);
}

TEST(Transformer, BlocksBeginAsTheIdentityWhereTheyAreModulated) {
  struct Fresh : torch::nn::Module {
    explicit Fresh(const TransformerOptions& options) : blocks(*this, options) {
      fill_token_weights(*this, WeightFill::xavier);
    }
    Transformer blocks;
  };
  Fresh network(modulated_options());
  const auto x = draw_golden("tokens", {2, 3, 20});
  EXPECT_TRUE(at::equal(network.blocks.forward(x, {.condition = x}), x));
}

TEST(Transformer, ASharedModulationIsThatOfEachBlockWithItsOffset) {
  const torch::NoGradGuard no_grad;
  auto options = modulated_options();
  Network own(options);
  options.shared_modulation = true;
  Network shared(options);
  const auto ours = own.named_parameters(), theirs = shared.named_parameters();
  for (const auto& item : ours) {
    const auto& name = item.key();
    if (name.ends_with("modulation.weight")) {
      item.value().copy_(theirs["modulation.weight"]);
    } else if (name.ends_with("modulation.bias")) {
      const auto block = name.substr(0, name.size() - std::string("modulation.bias").size());
      item.value().copy_(theirs["modulation.bias"] + theirs[block + "modulation_offset"]);
    } else {
      item.value().copy_(theirs[name]);
    }
  }
  EXPECT_EQ(ours.size() - 2 * 2, theirs.size() - 2 - 2);
  const auto x = draw_golden("tokens", {2, 5, 20});
  const TokenContext told{.condition = draw_golden("condition", {2, 1, 20})};
  EXPECT_LT(furthest(own.blocks.forward(x, told), shared.blocks.forward(x, told)), 1e-5);
}

TEST(Transformer, DropoutIsOnInTrainingAlone) {
  auto options = rotary_options();
  options.dropout = {.attention = 0.2, .projection = 0.2, .hidden = 0.2, .output = 0.2};
  Network network(options);
  const auto x = draw_golden("tokens", {2, 5, 24});
  const auto trained = [&](int64_t seed) {
    torch::manual_seed(seed);
    return network.blocks.forward(x, {.training = true});
  };
  EXPECT_TRUE(at::equal(network.blocks.forward(x, {}), network.blocks.forward(x, {})));
  EXPECT_TRUE(at::equal(trained(1), trained(1)));
  EXPECT_FALSE(at::equal(trained(1), trained(2)));
}

/// The output of a network, what it gives x and its weights, in fp64 on the CPU.
TensorMap trained(const TransformerOptions& options, at::ScalarType type, c10::Device device,
                  Precision precision) {
  Network network(options);
  network.to(device, type);
  const int64_t tokens = 37, channels = options.head_width();
  const auto on_device = at::device(device).dtype(type);
  const auto x = draw_golden("x", {3, tokens, options.width}).to(on_device).requires_grad_();
  const auto weights = draw_golden("by", {3, tokens, options.width}).to(on_device);
  const TokenContext context{.rotation = grid_rotation(1, tokens, channels, on_device)};
  Tensor y;
  {
    const AutocastGuard autocast(precision, device);
    y = network.blocks.forward(x, context);
  }
  (y * weights).sum().backward();
  const auto wide = [](const Tensor& values) { return values.detach().cpu().to(at::kDouble); };
  TensorMap all = {{"y", wide(y)}, {"x", wide(x.grad())}};
  for (const auto& item : network.named_parameters()) all[item.key()] = wide(item.value().grad());
  return all;
}

TEST(Transformer, TrainsOnAGpuAsCloselyAsPlainOperations) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const bool gated : {true, false}) {
    const TransformerOptions options{
        .width = 64, .depth = 2, .heads = 2, .hidden = 72, .gated = gated, .causal = true};
    const auto exact = trained(options, at::kDouble, at::kCPU, Precision::fp32);
    const auto plain = trained(options, at::kFloat, at::kCPU, Precision::bf16);
    const auto ours = trained(options, at::kFloat, at::kCUDA, Precision::bf16);
    for (const auto& [name, expected] : exact) {
      const auto error = [&](const TensorMap& all) {
        return (all.at(name) - expected).norm().item<double>();
      };
      EXPECT_LE(error(ours), 2 * error(plain) + 1e-6 * expected.norm().item<double>()) << name;
    }
  }
}

TEST(Transformer, DropoutOnAGpuFollowsTheSeed) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const TransformerOptions options{.width = 64,
                                   .depth = 2,
                                   .heads = 2,
                                   .hidden = 72,
                                   .causal = true,
                                   .dropout = {.projection = 0.2, .output = 0.2}};
  Network network(options);
  network.to(at::kCUDA);
  const auto x = draw_golden("x", {2, 5, 64}).to(at::kCUDA);
  const AutocastGuard autocast(Precision::bf16, at::kCUDA);
  const auto with_seed = [&](int64_t seed) {
    torch::manual_seed(seed);
    return network.blocks.forward(x, {.training = true});
  };
  EXPECT_TRUE(at::equal(with_seed(1), with_seed(1)));
  EXPECT_FALSE(at::equal(with_seed(1), with_seed(2)));
  EXPECT_TRUE(at::equal(network.blocks.forward(x, {}), network.blocks.forward(x, {})));
}

/// A transformer and its last norm, of sizes that the kernels of sampling take.
struct SampledNetwork : torch::nn::Module {
  SampledNetwork(const TransformerOptions& options, c10::Device device) : blocks(*this, options) {
    last = register_module(
        "last", std::make_shared<TokenNormImpl>(TokenNormImpl::Shape{options.width, options.norm}));
    fill_golden(*this, "sampled.");
    to(device);
  }
  Transformer blocks;
  std::shared_ptr<TokenNormImpl> last;
};

std::vector<TransformerOptions> sampled_options() {
  const TransformerOptions rotary{
      .width = 48, .depth = 2, .heads = 3, .hidden = 40, .causal = true};
  auto told = modulated_options(), both_ways = rotary;
  told.width = 48;
  auto shared = told;
  shared.shared_modulation = true;
  both_ways.causal = false;
  both_ways.query_norm = QueryNorm::width;
  both_ways.modulated = true;
  auto odd = rotary;  // heads of 12 channels, which the attention's kernel does not take
  odd.heads = 4;
  odd.hidden = 36;
  return {rotary, told, shared, both_ways, odd};
}

/// Sampling's results [B, T, width], a token at a time after two where the blocks are causal.
Tensor sampled_outputs(SampledNetwork& network, const Tensor& x, const TokenContext& whole,
                       const Modulation& by) {
  if (!network.blocks.options().causal) return network.blocks.sampled(x, whole, *network.last, by);
  KvCache cache(x.size(1));
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < x.size(1); begin += begin == 0 ? 2 : 1) {
    const int64_t count = begin == 0 ? 2 : 1;
    TokenContext context{
        .condition = whole.condition,
        .cache = &cache,
        .places = at::arange(begin, begin + count, at::TensorOptions(x.device()).dtype(at::kLong))};
    if (whole.rotation.defined()) context.rotation = whole.rotation.narrow(0, begin, count);
    outputs.push_back(
        network.blocks.sampled(x.narrow(1, begin, count), context, *network.last, by));
  }
  return at::cat(outputs, 1);
}

void expect_sampling_is_close_on(c10::Device device) {
  const torch::NoGradGuard no_grad;
  for (const auto& options : sampled_options()) {
    SCOPED_TRACE(fmt::format("heads {}, modulated {}, shared {}, causal {}", options.heads,
                             options.modulated, options.shared_modulation, options.causal));
    SampledNetwork network(options, device);
    const auto x = draw_golden("tokens", {3, 11, options.width}).to(device);
    TokenContext context;
    Modulation by;
    if (options.modulated) {
      context.condition = draw_golden("condition", {3, 1, options.width}).to(device);
      by = {draw_golden("shift", {3, 1, options.width}).to(device, at::kBFloat16),
            draw_golden("scale", {3, 1, options.width}).to(device, at::kBFloat16),
            {}};
    } else {
      context.rotation =
          grid_rotation(1, 11, options.head_width(), at::TensorOptions(device).dtype(at::kFloat));
    }
    const auto plain = [&] {
      const auto normed = network.last->forward(network.blocks.forward(x, context));
      return by.shift.defined() ? normed * (1 + by.scale) + by.shift : normed;
    };
    const auto exact = plain();
    EXPECT_LT(furthest(sampled_outputs(network, x, context, by), exact), 5e-5);  // in fp32
    const AutocastGuard autocast(Precision::bf16, device);
    const auto error = [&](const Tensor& y) {
      return (y.to(at::kFloat) - exact).norm().item<double>();
    };
    const auto ours = sampled_outputs(network, x, context, by);
    EXPECT_EQ(ours.scalar_type(), at::kBFloat16);
    // Its own rounding is that of the result, which the plain path keeps in fp32.
    EXPECT_LT(error(ours), 1.5 * error(plain()) + 0x1p-8 * exact.norm().item<double>());
    EXPECT_TRUE(at::equal(sampled_outputs(network, x, context, by), ours));
    for (const auto& module : network.modules(/*include_self=*/false)) {
      if (auto* mlp = module->as<TokenMlpImpl>()) mlp->join_products();
    }
    EXPECT_LT(error(sampled_outputs(network, x, context, by)),
              1.5 * error(plain()) + 0x1p-8 * exact.norm().item<double>());
  }
}

TEST(TransformerSampling, IsAsCloseAsThePlainForward) { expect_sampling_is_close_on(at::kCPU); }

TEST(TransformerSampling, IsAsCloseAsThePlainForwardOnAGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_sampling_is_close_on(at::kCUDA);
}

/// Neighbouring channels turn: the first half by the row, the second by the column.
TEST(GridRotation, TurnsPairsByRowAndColumn) {
  const auto rotation = grid_rotation(2, 3, 8, at::TensorOptions().dtype(at::kDouble));
  ASSERT_EQ(rotation.sizes(), (std::vector<int64_t>{6, 4}));
  const auto x = draw_golden("x", {1, 6, 1, 8}).to(at::kDouble);
  const auto y = rotated(x, rotation);
  for (int64_t place = 0; place < 6; ++place) {
    const double row = static_cast<double>(place / 3), column = static_cast<double>(place % 3);
    const double angles[] = {row, row * 0.01, column, column * 0.01};
    for (int64_t pair = 0; pair < 4; ++pair) {
      const auto at_channel = [&](const Tensor& values, int64_t channel) {
        return values[0][place][0][channel].item<double>();
      };
      const double a = at_channel(x, 2 * pair), b = at_channel(x, 2 * pair + 1);
      const double c = std::cos(angles[pair]), s = std::sin(angles[pair]);
      EXPECT_NEAR(at_channel(y, 2 * pair), a * c - b * s, 1e-12);
      EXPECT_NEAR(at_channel(y, 2 * pair + 1), a * s + b * c, 1e-12);
    }
  }
  EXPECT_EQ(rotated(x, at::zeros_like(rotation)).abs().max().item<double>(), 0);
}

TEST(GatedMlp, EqualsThePlainOne) {
  const Tensor given[] = {draw_golden("x", {2, 5, 7}), draw_golden("w1", {11, 7}),
                          draw_golden("w2", {7, 11}), draw_golden("w3", {11, 7})};
  const auto by = draw_golden("by", {2, 5, 7});
  const auto run = [&](const auto& mlp) {
    std::vector<Tensor> all;
    for (const auto& one : given) all.push_back(one.clone().requires_grad_());
    const auto y = mlp(all[0], all[1], all[2], all[3]);
    (y * by).sum().backward();
    std::vector<Tensor> results = {y.detach()};
    for (const auto& one : all) results.push_back(one.grad());
    return results;
  };
  const auto plain = run([](const Tensor& x, const Tensor& w1, const Tensor& w2, const Tensor& w3) {
    return at::linear(at::silu(at::linear(x, w1)) * at::linear(x, w3), w2);
  });
  const auto ours = run(gated_mlp);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_LT(furthest(ours[i], plain[i]), 1e-5) << i;
}

struct Gradients {
  Tensor losses, x, weight, bias;
};

struct LossCase {
  Tensor x, weight, bias, targets, factors;

  LossCase(int64_t rows, int64_t codes, int64_t width, bool with_bias, at::ScalarType type)
      : x(draw_golden("x", {rows, width}, 2).to(type)),
        weight(draw_golden("w", {codes, width}).to(type)),
        bias(with_bias ? draw_golden("b", {codes}).to(type) : Tensor()),
        targets((draw_golden("t", {rows}).add(1) / 2 * static_cast<double>(codes)).to(at::kLong)),
        factors(draw_golden("f", {rows}).to(type)) {}

  LossCase on(c10::Device device) const {
    auto other = *this;
    for (auto* tensor : {&other.x, &other.weight, &other.bias, &other.targets, &other.factors}) {
      if (tensor->defined()) *tensor = tensor->to(device);
    }
    return other;
  }

  template <typename Loss>
  Gradients run(const Loss& loss) const {
    const auto leaf = [](const Tensor& values) {
      return values.defined() ? values.detach().clone().requires_grad_() : values;
    };
    const auto own_x = leaf(x), own_weight = leaf(weight), own_bias = leaf(bias);
    const auto losses = loss(own_x, own_weight, own_bias);
    (losses * factors).sum().backward();
    return {losses.detach(), own_x.grad(), own_weight.grad(),
            bias.defined() ? own_bias.grad() : Tensor()};
  }
  Gradients in_chunks(int64_t logits_at_once, RowGradients rows = RowGradients::any) const {
    return run([&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return linear_cross_entropy(a, b, c, targets, rows, logits_at_once);
    });
  }
  Gradients plain() const {
    return run([&](const Tensor& a, const Tensor& b, const Tensor& c) {
      const auto given = c.defined() ? std::optional<Tensor>(c) : std::nullopt;
      const auto logits = at_least_fp32(at::linear(a, b, given));
      return at::cross_entropy_loss(logits, targets, {}, at::Reduction::None);
    });
  }
};

void expect_equal(const Gradients& a, const Gradients& b, double tolerance) {
  EXPECT_EQ(a.losses.scalar_type(), b.losses.scalar_type());
  EXPECT_LT(furthest(a.losses, b.losses), tolerance);
  for (const auto& [own, other] :
       {std::pair{a.x, b.x}, std::pair{a.weight, b.weight}, std::pair{a.bias, b.bias}}) {
    ASSERT_EQ(own.defined(), other.defined());
    if (!own.defined()) continue;
    EXPECT_EQ(own.scalar_type(), other.scalar_type());
    EXPECT_LT(furthest(own, other), tolerance * (1 + other.abs().max().item<double>()));
  }
}

TEST(LinearCrossEntropy, EqualsThePlainOneInChunksOfAnySize) {
  for (const auto& [rows, codes] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 33}, {31, 2}, {33, 31}, {32, 32}, {65, 100}}) {
    for (const bool with_bias : {false, true}) {
      const LossCase one(rows, codes, 7, with_bias, at::kDouble);
      const auto plain = one.plain();
      for (const int64_t at_once : {int64_t{1}, 5 * codes + 1, kLogitsAtOnce}) {
        SCOPED_TRACE(fmt::format("{} rows, {} codes, {} at once", rows, codes, at_once));
        expect_equal(one.in_chunks(at_once), plain, 1e-12);
      }
      const LossCase narrow(rows, codes, 7, with_bias, at::kFloat);
      expect_equal(narrow.in_chunks(5 * codes + 1), narrow.plain(), 1e-5);
    }
  }
}

TEST(LinearCrossEntropy, OfEqualGradientsIsThePlainOne) {
  for (const auto& [rows, codes] : {std::pair<int64_t, int64_t>{1, 1}, {31, 33}, {65, 100}}) {
    for (const bool with_bias : {false, true}) {
      LossCase one(rows, codes, 7, with_bias, at::kDouble);
      one.factors.fill_(-0.3);
      for (const int64_t at_once : {int64_t{1}, 5 * codes + 1, kLogitsAtOnce}) {
        expect_equal(one.in_chunks(at_once, RowGradients::equal), one.plain(), 1e-12);
      }
    }
  }
  const auto nothing = at::empty({0, 4}).requires_grad_();
  linear_cross_entropy(nothing, at::zeros({3, 4}), {}, at::empty({0}, at::kLong),
                       RowGradients::equal)
      .sum()
      .backward();
  EXPECT_EQ(nothing.grad().numel(), 0);
}

void expect_close_under_autocast(c10::Device device, int64_t codes, RowGradients rows) {
  SCOPED_TRACE(fmt::format("{} codes", codes));
  LossCase one(33, codes, 16, true, at::kFloat), wide(33, codes, 16, true, at::kDouble);
  if (rows == RowGradients::equal) {
    one.factors.fill_(-0.25);
    wide.factors.fill_(-0.25);
  }
  const auto exact = wide.plain();
  Gradients chunked, plain;
  {
    const AutocastGuard autocast(Precision::bf16, device);
    chunked = one.on(device).in_chunks(700, rows);
    plain = one.on(device).plain();
  }
  const auto error = [&](const Tensor& values, const Tensor& other) {
    return (values.cpu().to(at::kDouble) - other).norm().item<double>();
  };
  EXPECT_EQ(chunked.losses.scalar_type(), at::kFloat);
  EXPECT_EQ(chunked.weight.scalar_type(), at::kFloat);
  EXPECT_LT(error(chunked.losses, exact.losses), 2 * error(plain.losses, exact.losses) + 1e-6);
  EXPECT_LT(error(chunked.x, exact.x), 2 * error(plain.x, exact.x));
  EXPECT_LT(error(chunked.weight, exact.weight), 2 * error(plain.weight, exact.weight));
  EXPECT_LT(error(chunked.bias, exact.bias), 2 * error(plain.bias, exact.bias));
}

TEST(LinearCrossEntropy, UnderAutocastIsAsCloseAsThePlainOne) {
  expect_close_under_autocast(at::kCPU, 65, RowGradients::any);
}

TEST(LinearCrossEntropy, UnderAutocastOnAGpuIsAsCloseAsThePlainOne) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t codes : {64, 65, 1000}) {
    expect_close_under_autocast(at::kCUDA, codes, RowGradients::any);
    expect_close_under_autocast(at::kCUDA, codes, RowGradients::equal);
  }
}

TEST(LinearCrossEntropy, OfNoRowsIsEmptyAndOfNaNIsNaN) {
  const LossCase none(0, 5, 3, false, at::kFloat);
  const auto result = none.in_chunks(kLogitsAtOnce);
  EXPECT_EQ(result.losses.numel(), 0);
  EXPECT_EQ(result.weight.abs().max().item<double>(), 0);
  LossCase broken(3, 5, 4, false, at::kFloat);
  broken.x[1][2] = NAN;
  const auto losses = broken.in_chunks(6).losses;
  EXPECT_TRUE(losses[1].isnan().item<bool>());
  EXPECT_FALSE(losses[0].isnan().item<bool>() || losses[2].isnan().item<bool>());
}

}  // namespace
}  // namespace nsvq
