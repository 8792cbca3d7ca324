// What holds for every quantizer: a new member is tested here from the moment it is registered.

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "nsvq/core/error.h"
#include "nsvq/ops/code_search/nearest_codes_cosine.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/quantizers/members.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

/// Members without tokens have a test of their own.
class EveryQuantizer : public testing::TestWithParam<std::string> {
 protected:
  Member member_ = member(GetParam());
  torch::Tensor latents(int64_t batch = 2, int64_t h = 5, int64_t w = 3) {
    return latents_for(member_, batch, h, w);
  }
};

/// Parameters and buffers, copied.
std::vector<torch::Tensor> state_of(const Quantizer& quantizer) {
  std::vector<torch::Tensor> state;
  for (const auto& tensor : quantizer.parameters()) state.push_back(tensor.detach().clone());
  for (const auto& tensor : quantizer.buffers()) state.push_back(tensor.clone());
  return state;
}

/// What a trainer does with a batch: gradient steps, then the statistics. Each number moves by
/// `rate` against the sign of its gradient, as in Adam's first step, so that one rate fits all.
void train(Quantizer& quantizer, const torch::Tensor& latents, double rate, int64_t steps) {
  const auto group = make_single_group();
  for (int64_t number = 0; number < steps; ++number) {
    quantizer.zero_grad();
    const auto result =
        quantizer.quantize(latents, {.step = seed_of(number), .seed = seed_of(number)});
    if (result.loss.requires_grad()) result.loss.backward();
    const torch::NoGradGuard no_grad;
    for (auto& parameter : quantizer.parameters()) {
      if (parameter.grad().defined()) parameter.sub_(parameter.grad().sign(), rate);
    }
    quantizer.update_statistics(
        {flatten_latents(latents), result.indices.flatten(), seed_of(number), *group});
  }
}

TEST_P(EveryQuantizer, ShapesAndRange) {
  const auto counts = member_.kind.any_codes ? std::vector<int64_t>{1, 31, 33}
                                             : std::vector<int64_t>{make(member_)->codes()};
  for (const int64_t codes : counts) {
    if (member_.kind.any_codes) member_.config.codes = codes;
    const auto quantizer = make(member_);
    const auto result = quantizer->quantize(latents(), {});
    EXPECT_EQ(quantizer->codes(), codes);
    EXPECT_EQ(result.latents.sizes(), latents().sizes());
    EXPECT_EQ(result.indices.sizes(), (std::vector<int64_t>{2, 5, 3}));
    EXPECT_EQ(result.indices.scalar_type(), at::kLong);
    EXPECT_GE(result.indices.min().item<int64_t>(), 0);
    EXPECT_LT(result.indices.max().item<int64_t>(), codes);
    EXPECT_EQ(result.loss.dim(), 0);
    EXPECT_TRUE(result.terms.count("commitment"));
  }
}

TEST_P(EveryQuantizer, DecodedIndicesAreWhatTheDecoderGetsBitForBit) {
  const auto quantizer = make(member_);
  const auto result = quantizer->quantize(latents(), {});
  EXPECT_TRUE(at::equal(quantizer->encode(latents()), result.indices));
  EXPECT_TRUE(at::equal(quantizer->decode(result.indices), result.latents));
}

TEST_P(EveryQuantizer, GradientsPassStraightThrough) {
  if (!member_.kind.straight_through) GTEST_SKIP() << "its own test has its gradients";
  const auto quantizer = make(member_);
  const auto z = latents().requires_grad_();
  const auto weight = at::randn_like(z);
  (quantizer->quantize(z, {}).latents * weight).sum().backward();
  EXPECT_TRUE(at::equal(z.grad(), weight));
}

TEST_P(EveryQuantizer, WithoutCommitmentTheLossLeavesTheEncoderAlone) {
  const auto quantizer = make(member_);
  const auto z = latents().requires_grad_();
  const auto loss = quantizer->quantize(z, {.commitment = false}).loss;
  if (loss.requires_grad()) loss.backward();
  EXPECT_TRUE(!z.grad().defined() || z.grad().abs().max().item<double>() == 0);
}

TEST_P(EveryQuantizer, OnlyTrainingChangesState) {
  const auto quantizer = make(member_);
  const auto before = state_of(*quantizer);
  quantizer->encode(latents());
  quantizer->decode(quantizer->quantize(latents(), {}).indices);
  const auto after = state_of(*quantizer);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(before[i], after[i])) << i;
}

// A skipped step puts back what `statistics` lists, and nothing else.
TEST_P(EveryQuantizer, StatisticsAreAllThatAStepUpdatesWithoutGradients) {
  for (const auto* normalise : {"false", "true"}) {
    if (normalise == std::string("true") && !member_.kind.refuses_norms.empty()) continue;
    member_.config.normalise = normalise == std::string("true");
    const auto quantizer = make(member_);
    const auto result = quantizer->quantize(latents(), {.seed = seed_of(1)});
    const auto before = state_of(*quantizer);
    const auto group = make_single_group();
    quantizer->update_statistics(
        {flatten_latents(latents()), result.indices.flatten(), seed_of(2), *group});
    auto tensors = quantizer->parameters();
    for (const auto& buffer : quantizer->buffers()) tensors.push_back(buffer);
    const auto listed = quantizer->statistics();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool may_change =
          std::ranges::any_of(listed, [&](const auto& one) { return one.is_same(tensors[i]); });
      EXPECT_TRUE(may_change || at::equal(before[i], tensors[i])) << i;
    }
  }
}

TEST_P(EveryQuantizer, EqualSeedsGiveEqualTraining) {
  const auto a = make(member_), b = make(member_);
  train(*a, latents(8), 0.01, 3);
  torch::manual_seed(77);
  train(*b, latents(8), 0.01, 3);
  const auto left = state_of(*a), right = state_of(*b);
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i])) << i;
}

TEST_P(EveryQuantizer, LayoutOfTheLatentsDoesNotMatter) {
  const auto quantizer = make(member_);
  const auto z = latents();
  const auto other = z.contiguous(at::MemoryFormat::ChannelsLast);
  const auto a = quantizer->quantize(z, {}), b = quantizer->quantize(other, {});
  EXPECT_TRUE(at::equal(a.indices, b.indices));
  EXPECT_NEAR(a.loss.item<double>(), b.loss.item<double>(), 1e-6);
}

TEST_P(EveryQuantizer, TrainingReducesTheLoss) {
  const auto quantizer = make(member_);
  if (quantizer->parameters().empty() && quantizer->buffers().empty()) {
    GTEST_SKIP() << "nothing to train";
  }
  const auto z = latents(8);
  const double before = quantizer->quantize(z, {}).loss.item<double>();
  if (before == 0) GTEST_SKIP() << "no loss to reduce";
  train(*quantizer, z, 0.01, 20);
  EXPECT_LT(quantizer->quantize(z, {}).loss.item<double>(), 0.9 * before);
}

TEST_P(EveryQuantizer, HalfPrecisionAroundItIsWidenedFirst) {
  const auto quantizer = make(member_);
  const auto half = latents().to(at::kBFloat16);
  const auto a = quantizer->quantize(half, {}), b = quantizer->quantize(half.to(at::kFloat), {});
  EXPECT_TRUE(at::equal(a.indices, b.indices));
  EXPECT_EQ(a.loss.item<double>(), b.loss.item<double>());
  EXPECT_EQ(a.latents.scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(quantizer->encode(half), b.indices));
}

TEST_P(EveryQuantizer, NaNLatentsAreRefused) {
  auto z = latents();
  z[0][0][0][0] = NAN;
  EXPECT_ANY_THROW(make(member_)->encode(z));
}

TEST_P(EveryQuantizer, OperatorsAgree) {
  const auto z = latents(3, 7, 5);
  struct Outcome {
    Quantized result;
    torch::Tensor to_latents;
    std::vector<torch::Tensor> to_parameters;
  };
  const auto outcome = [&](const std::string& operators) {
    member_.config.operators = operators;
    const auto quantizer = make(member_);
    const auto input = z.clone().requires_grad_();
    Outcome out{quantizer->quantize(input, {}), {}, {}};
    (out.result.loss + out.result.latents.square().sum()).backward();
    out.to_latents = input.grad();
    for (const auto& parameter : quantizer->parameters()) {
      if (parameter.grad().defined()) out.to_parameters.push_back(parameter.grad());
    }
    return out;
  };
  const auto ours = outcome("streaming"), plain = outcome("plain");
  EXPECT_TRUE(at::equal(ours.result.indices, plain.result.indices));
  EXPECT_TRUE(at::allclose(ours.result.loss, plain.result.loss, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(ours.to_latents, plain.to_latents, 1e-5, 1e-7));
  ASSERT_EQ(ours.to_parameters.size(), plain.to_parameters.size());
  for (size_t i = 0; i < ours.to_parameters.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours.to_parameters[i], plain.to_parameters[i], 1e-4, 1e-7)) << i;
  }
}

TEST_P(EveryQuantizer, CodesDrawnFromDataAreLatents) {
  member_.config.init = "data";
  if (member_.kind.any_codes) member_.config.codes = 10;
  const auto quantizer = make(member_);
  if (!quantizer->wants_data() || !quantizer->codebook().defined()) GTEST_SKIP();
  const auto flat = flatten_latents(latents());
  quantizer->initialise_from(flat, 1);
  // Codes have a latent's direction; factorised keeps them at length 1.
  const auto cosines = unit_vectors(quantizer->codebook()).matmul(unit_vectors(flat).t());
  EXPECT_GT(std::get<0>(cosines.max(1)).min().item<double>(), 1 - 1e-6);
  quantizer->initialise_from(flat.slice(0, 0, 4), 1);  // fewer latents than codes
  EXPECT_EQ(std::get<0>(at::unique_dim(quantizer->codebook(), 0)).size(0), 10);
}

// Noise belongs to a latent's index in the step, whichever rank or pass has it.
TEST_P(EveryQuantizer, PartsOfABatchAreQuantizedAsTheWhole) {
  const auto quantizer = make(member_);
  const auto z = latents(4);
  const auto whole = quantizer->quantize(z, {.seed = seed_of(5)});
  for (const int64_t part : {0, 1}) {
    const auto half =
        quantizer->quantize(z.narrow(0, 2 * part, 2), {.seed = seed_of(5), .part = part});
    EXPECT_TRUE(at::equal(half.indices, whole.indices.narrow(0, 2 * part, 2)));
    EXPECT_TRUE(at::allclose(half.latents, whole.latents.narrow(0, 2 * part, 2), 1e-5, 1e-6));
  }
}

// The mean of ranks' losses and gradients is that of one process, where entropies are of all.
TEST_P(EveryQuantizer, LossesOfRanksAreThatOfTheWhole) {
  const auto z = latents(4).requires_grad_();
  const auto alone = make(member_);
  const auto whole = alone->quantize(z, {.seed = seed_of(5)});
  whole.loss.backward();
  const std::array quantizers = {make(member_), make(member_)};
  std::array<torch::Tensor, 2> losses;
  on_two_ranks([&](int rank, Group& both) {
    const auto half = z.detach().narrow(0, 2 * rank, 2).clone().requires_grad_();
    const auto result = quantizers[rank]->quantize(
        half, {.seed = seed_of(5), .part = rank, .entropy_group = &both});
    result.loss.backward();
    losses[rank] = result.loss.detach();
    EXPECT_TRUE(at::allclose(half.grad() / 2, z.grad().narrow(0, 2 * rank, 2), 1e-3, 1e-6));
  });
  EXPECT_TRUE(at::allclose((losses[0] + losses[1]) / 2, whole.loss, 1e-4, 1e-6));
  for (const auto& item : alone->named_parameters()) {
    if (!item.value().grad().defined()) continue;
    const auto of = [&](int rank) {
      return quantizers[rank]->named_parameters()[item.key()].grad();
    };
    EXPECT_TRUE(at::allclose((of(0) + of(1)) / 2, item.value().grad(), 1e-3, 1e-6)) << item.key();
  }
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.tokens && kind.untrained.empty()) result.push_back(kind.name);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryQuantizer, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

/// By how much a larger quantizer.beta draws latents closer to what they are decoded from.
double pull_of_beta(Member one) {
  const auto z = latents_for(one).requires_grad_();
  const auto gradient = [&](double beta) {
    one.config.beta = beta;
    const auto loss = make(one)->quantize(z, {.seed = seed_of(1)}).loss;
    return loss.requires_grad() ? torch::autograd::grad({loss}, {z}, {}, {}, false, true).front()
                                : torch::Tensor();
  };
  const auto weak = gradient(0.25), strong = gradient(0.75);
  if (!strong.defined()) return 0;
  const auto decoded = make(one)->assign(z.detach()).latents;
  return ((strong - weak) * (z.detach() - decoded)).sum().item<double>();
}

/// What a kind says of its members is true of them.
TEST(QuantizerRegistry, KindsSayWhatTheirMembersAre) {
  int with_dim = 0;
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    SCOPED_TRACE(kind.name);
    const auto one = member(kind.name);
    EXPECT_EQ(make(one)->codebook().defined(), kind.codebook);
    EXPECT_EQ(make(one)->quantize(latents_for(one), {}).terms.contains("ns"), kind.ns_loss);
    EXPECT_EQ(pull_of_beta(one) > 1e-6, kind.weighs_commitment);
    EXPECT_EQ(kind.latent_dim != nullptr, !kind.channels.empty());
    if (!kind.latent_dim) continue;
    ++with_dim;
    EXPECT_FALSE(kind.codes_are.empty());
    const int64_t needed = kind.latent_dim(one.config);
    EXPECT_NO_THROW(make_quantizer(one.config, needed));
    expect_contains(error_of([&] { make_quantizer(one.config, needed + 1); }),
                    {kind.channels, fmt::format("; set model.latent_dim={}", needed)});
  }
  EXPECT_EQ(with_dim, 2);
}

TEST(QuantizerRegistry, UnknownTypeNamesTheNearest) {
  QuantizerConfig config;
  config.type = "nsqv";
  try {
    make_quantizer(config, 4);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'nsvq'"), std::string::npos) << error.what();
  }
}

TEST(QuantizerRegistry, InitialisationsHaveTheirScales) {
  QuantizerConfig config;
  config.codes = 4096;
  torch::manual_seed(0);
  EXPECT_NEAR(make_quantizer(config, 64)->codebook().std().item<double>(), 1.0 / 8, 1e-3);
  config.init = "uniform";
  const auto uniform = make_quantizer(config, 64)->codebook();
  EXPECT_LE(uniform.abs().max().item<double>(), 1.0 / 4096);
  EXPECT_GT(uniform.abs().max().item<double>(), 0.99 / 4096);
  config.init = "normal";
  EXPECT_NEAR(make_quantizer(config, 64)->codebook().std().item<double>(), 1, 8e-3);
  config.init_scale = 0.3;
  EXPECT_NEAR(make_quantizer(config, 64)->codebook().std().item<double>(), 0.3, 3e-3);
  EXPECT_NEAR(make_quantizer(config, 64)->codebook().mean().item<double>(), 0, 3e-3);
}

}  // namespace
}  // namespace nsvq
