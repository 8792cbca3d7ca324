// Policies that act after a step: restart and anchor.

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/codebook.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/quantizers/replacement/sample_rows.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

ReplacementConfig restart(double threshold, double decay) {
  ReplacementConfig config;
  config.threshold = threshold;
  config.decay = decay;
  return config;
}

/// Which latent [N, d] each code [K, d] is, or -1.
torch::Tensor latent_of(const torch::Tensor& codebook, const torch::Tensor& latents) {
  const auto same = codebook.unsqueeze(1).eq(latents.unsqueeze(0)).all(2);
  return at::where(same.any(1), same.to(at::kByte).argmax(1), at::full({}, -1, at::kLong));
}

TEST(Restart, UnusedCodesBecomeLatents) {
  const auto group = make_single_group();
  torch::manual_seed(1);
  const auto start = at::randn({6, 3}), z = at::randn({10, 3});
  auto codebook = start.clone();
  const auto policy = restart_replacement_kind().make(restart(1, 0.9), codebook);
  // Usage goes from 1 to 0.9 + 0.1 n: 0 and 5 are too little.
  const auto indices = at::tensor({1, 1, 1, 2, 3, 3, 4, 4, 4, 4}, at::kLong);
  const auto rows = policy->after_step(codebook, {z, indices, seed_of(7), *group});
  EXPECT_TRUE(at::equal(rows, at::tensor({1, 0, 0, 0, 0, 1}).to(at::kBool)));
  const auto origin = latent_of(codebook, z);
  for (const int64_t unused : {0, 5}) EXPECT_GE(origin[unused].item<int64_t>(), 0);
  EXPECT_NE(origin[0].item<int64_t>(), origin[5].item<int64_t>());
  EXPECT_TRUE(at::equal(codebook.slice(0, 1, 5), start.slice(0, 1, 5)));
  const auto usage = policy->state().at("usage");
  EXPECT_TRUE(at::allclose(usage, at::tensor({1.0, 1.2, 1.0, 1.1, 1.3, 1.0}).to(at::kFloat)));
}

TEST(Restart, UsageRunsOverSteps) {
  const auto group = make_single_group();
  auto codebook = at::zeros({2, 3});
  const auto policy = restart_replacement_kind().make(restart(0.5, 0.9), codebook);
  const auto z = at::randn({10, 3});
  const auto use = [&](int64_t code) {
    const auto rows = policy->after_step(codebook, {z, at::full({10}, code), seed_of(1), *group});
    return rows[0].item<bool>();
  };
  EXPECT_FALSE(use(0));  // 0.9 * 0.5 + 0.1 * 10 = 1.45
  int steps = 1;
  while (!use(1)) ++steps;
  EXPECT_EQ(steps, 11);  // 1.45 * 0.9^11 is the first below 0.5
}

TEST(Restart, FewerLatentsThanCodesAreRepeatedWithNoise) {
  const auto group = make_single_group();
  const int64_t codes = 4001, dim = 16;
  auto codebook = at::zeros({codes, dim});
  const auto policy = restart_replacement_kind().make(restart(1, 0.5), codebook);
  const auto z = at::arange(3, at::kFloat).unsqueeze(1).expand({3, dim}) * 10;
  const auto indices = at::tensor({0, 0, 0}, at::kLong);  // usage 2
  policy->after_step(codebook, {z, indices, seed_of(7), *group});
  const auto drawn = codebook.slice(0, 1);
  const auto origin = drawn.select(1, 0).div(10).round();
  for (const double source : {0, 1, 2}) {
    EXPECT_NEAR(origin.eq(source).to(at::kDouble).mean().item<double>(), 1.0 / 3, 0.001);
  }
  const auto noise = drawn - origin.unsqueeze(1) * 10;
  EXPECT_NEAR(noise.std().item<double>(), 0.01 / 4, 0.00005);
}

TEST(Restart, TheSeedAloneDecides) {
  const auto group = make_single_group();
  const auto z = at::randn({50, 3});
  const auto outcome = [&](int64_t seed) {
    auto codebook = at::zeros({20, 3});
    const auto policy = restart_replacement_kind().make(restart(1, 0.5), codebook);
    policy->after_step(codebook, {z, at::zeros({50}, at::kLong), seed_of(seed), *group});
    return codebook;
  };
  const auto a = outcome(1);
  torch::manual_seed(99);
  EXPECT_TRUE(at::equal(a, outcome(1)));
  EXPECT_FALSE(at::equal(a, outcome(2)));
  EXPECT_EQ(std::get<0>(at::unique_dim(a.slice(0, 1), 0)).size(0), 19)
      << "no latent is drawn twice";
}

TEST(StepPolicies, RanksTakeWhatOneProcessWithAllLatentsTakes) {
  torch::manual_seed(5);
  const auto z = at::randn({40, 4}), start = at::randn({8, 4});
  const auto indices = at::randint(0, 5, {40}, at::kLong);
  for (const std::string policy : {"restart", "sampled", "closest", "random"}) {
    SCOPED_TRACE(policy);
    // Also fewer latents than codes, of which restart and random make copies with noise.
    for (const int64_t n : {int64_t{20}, int64_t{3}}) {
      const auto step = [&](torch::Tensor& codebook, int64_t begin, int64_t end, Group& group) {
        auto config = restart(2, 0.9);
        config.of<AnchorReplacementConfig>().anchor = policy;
        std::unique_ptr<Replacement> own;
        if (policy == "restart") {
          own = restart_replacement_kind().make(config, codebook);
        } else {
          own = anchor_replacement_kind().make(config, codebook);
        }
        own->after_step(codebook,
                        {z.slice(0, begin, end), indices.slice(0, begin, end), seed_of(3), group});
        return own->state().begin()->second;
      };
      auto alone = start.clone();
      const auto state = step(alone, 0, 2 * n, *make_single_group());
      EXPECT_FALSE(at::equal(alone, start));
      on_two_ranks([&](int rank, Group& both) {
        auto codebook = start.clone();
        EXPECT_TRUE(at::equal(step(codebook, rank * n, (rank + 1) * n, both), state));
        EXPECT_TRUE(at::equal(codebook, alone)) << codebook << alone;
      });
    }
  }
}

TEST(StepPolicies, AnEmaQuantizerKeepsWhatReplacedACode) {
  const auto group = make_single_group();
  for (const std::string policy : {"restart", "anchor"}) {
    SCOPED_TRACE(policy);
    QuantizerSettings config;
    config.quantizer.type = "ema";
    config.quantizer.codes = 5;
    config.replacement.policy = policy;
    config.replacement.threshold = 0.5;
    torch::manual_seed(1);
    const auto quantizer = make_quantizer(config.quantizer, 3);
    const auto replacement = make_replacement(config.replacement, config.quantizer, *quantizer);
    const auto z = at::randn({30, 3});
    const auto indices = at::arange(30).remainder(4);  // 4 is never chosen
    torch::Tensor replaced;
    for (int64_t i = 0; i < 3; ++i) {
      const StepOutputs step{z, indices, seed_of(i), *group};
      quantizer->update_statistics(step);
      if (i > 0) EXPECT_TRUE(at::allclose(quantizer->codebook()[4], replaced, 1e-4, 1e-5));
      const auto rows = replacement->after_step(quantizer->codebook(), step);
      EXPECT_TRUE(at::equal(rows, at::arange(5).eq(4)));
      quantizer->rows_replaced(rows);
      replaced = quantizer->codebook()[4].clone();
    }
  }
}

TEST(StepPolicies, StateIsAllThatACheckpointNeeds) {
  const auto group = make_single_group();
  for (const std::string policy : {"restart", "anchor"}) {
    QuantizerSettings config;
    config.quantizer.type = "vq";
    config.quantizer.codes = 12;
    config.replacement.policy = policy;
    const auto quantizer = make_quantizer(config.quantizer, 3);
    const auto first = make_replacement(config.replacement, config.quantizer, *quantizer);
    const auto second = make_replacement(config.replacement, config.quantizer, *quantizer);
    torch::manual_seed(1);
    const auto z = at::randn({30, 3});
    const auto indices = at::randint(0, 9, {30}, at::kLong);
    auto a = at::randn({12, 3});
    first->after_step(a, {z, indices, seed_of(1), *group});
    for (auto& [name, tensor] : second->state()) tensor.copy_(first->state().at(name));
    auto b = a.clone();
    first->after_step(a, {z, indices, seed_of(2), *group});
    second->after_step(b, {z, indices, seed_of(2), *group});
    EXPECT_TRUE(at::equal(a, b)) << policy;
  }
}

TEST(StepPolicies, MethodsComeWithTheirOwn) {
  QuantizerSettings config;
  config.quantizer.codes = 4;
  for (const auto& type : {"jukebox", "soundstream", "cvq", "ema"}) {
    config.quantizer.type = type;
    const auto quantizer = make_quantizer(config.quantizer, 3);
    const auto own = make_replacement(config.replacement, config.quantizer, *quantizer);
    const std::string name = type;
    EXPECT_EQ(own && own->state().contains("usage"), name == "jukebox" || name == "soundstream");
    EXPECT_EQ(own && own->state().contains("share"), name == "cvq");
  }
}

TEST(Anchor, StepsEqualTheEquations) {
  const auto group = make_single_group();
  for (const auto& expected : golden("anchor")) {
    const int64_t codes = expected.at("codes"), dim = expected.at("dim"), n = expected.at("n");
    SCOPED_TRACE(fmt::format("{} codes", codes));
    QuantizerSettings config;
    config.quantizer.type = "cvq";
    config.quantizer.codes = codes;
    config.quantizer.of<CvqConfig>().distance = expected.at("distance");
    config.replacement = restart(1, expected.at("decay"));
    config.replacement.of<AnchorReplacementConfig>().anchor = "closest";
    const auto quantizer = make_quantizer(config.quantizer, dim);
    quantizer->to(at::kDouble);  // codes that share an anchor are near ties
    const torch::NoGradGuard no_grad;
    auto codebook = quantizer->codebook();
    codebook.copy_(formula({codes, dim}, 0.6, 1.7));
    const auto policy = make_replacement(config.replacement, config.quantizer, *quantizer);
    double number = 0;
    for (const auto& step : expected.at("steps")) {
      const auto z = formula({n, dim}, 0.8, 0.1 + number++);
      const auto indices = quantizer->encode(z.t().unsqueeze(0).unsqueeze(2)).flatten();
      policy->after_step(codebook, {z, indices, seed_of(0), *group});
      EXPECT_LE(farthest(policy->state().at("share"), step.at("share")), 1e-7);
      EXPECT_LE(farthest(codebook.norm(2, 1), step.at("codebook_norms")), 1e-5);
      if (step.contains("codebook")) EXPECT_LE(farthest(codebook, step.at("codebook")), 1e-5);
    }
  }
}

TEST(Anchor, TheDistanceIsTheQuantizers) {
  QuantizerSettings config;
  config.replacement.policy = "anchor";
  config.replacement.of<AnchorReplacementConfig>().anchor = "closest";
  config.quantizer.codes = 1;
  const auto group = make_single_group();
  const torch::NoGradGuard no_grad;
  // The first is nearer, the second has the smaller angle.
  const auto z = at::tensor({1.0, 0.5, 9.0, 0.1}).view({2, 2}).to(at::kFloat);
  for (const auto& [type, distance, anchor] :
       {std::tuple{"cvq", "cosine", 1}, {"cvq", "l2", 0}, {"factorised", "l2", 1}, {"vq", "", 0}}) {
    SCOPED_TRACE(fmt::format("{} {}", type, distance));
    config.quantizer.type = type;
    config.quantizer.of<CvqConfig>().distance = distance;
    const auto quantizer = make_quantizer(config.quantizer, 2);
    auto codebook = quantizer->codebook();
    codebook.copy_(at::tensor({1.0, 0.0}).view({1, 2}));
    const auto none = at::empty({0}, at::kLong);  // so that the code is unused
    make_replacement(config.replacement, config.quantizer, *quantizer)
        ->after_step(codebook, {z, none, seed_of(0), *group});
    EXPECT_TRUE(at::allclose(codebook[0], z[anchor], 0.01)) << codebook;
  }
}

TEST(Anchor, SamplesAreByDistance) {
  torch::manual_seed(3);
  const int64_t draws = 20000;
  const auto z = at::randn({7, 3}), code = at::randn({1, 3});
  const auto rows = sample_by_distance(code.expand({draws, 3}).contiguous(), z, seed_of(5));
  const auto shares = at::bincount(rows, {}, 7).to(at::kDouble) / draws;
  const auto expected = at::softmax(-(z - code).square().sum(1), 0).to(at::kDouble);
  EXPECT_LT((shares - expected).abs().max().item<double>(), 0.015) << shares << expected;
  EXPECT_TRUE(
      at::equal(rows, sample_by_distance(code.expand({draws, 3}).contiguous(), z, seed_of(5))));
}

TEST(Cvq, SearchesByItsDistanceAndDecodesToTheCodeItself) {
  auto one = member("cvq");
  const auto z = latents_for(one) * 3;
  const auto flat = flatten_latents(z);
  for (const std::string distance : {"cosine", "l2"}) {
    one.config.of<CvqConfig>().distance = distance;
    const auto quantizer = make(one);
    const torch::NoGradGuard no_grad;
    quantizer->codebook().normal_().mul_(at::rand({37, 1}).add_(0.1));
    const auto codes = quantizer->codebook();
    const auto expected = distance == "l2"
                              ? (flat.unsqueeze(1) - codes.unsqueeze(0)).square().sum(2).argmin(1)
                              : at::mm(flat, (codes / codes.norm(2, 1, true)).t()).argmax(1);
    const auto result = quantizer->quantize(z, {});
    EXPECT_TRUE(at::equal(result.indices.flatten(), expected)) << distance;
    EXPECT_TRUE(at::equal(quantizer->encode(z), result.indices)) << distance;
    EXPECT_TRUE(at::equal(flatten_latents(result.latents), codes.index_select(0, expected)));
  }
}

TEST(Anchor, TheMostSimilarHasTheLeastAngle) {
  torch::manual_seed(2);
  const auto codes = at::randn({33, 7}), z = at::randn({31, 7}) * at::rand({31, 1}).mul(5);
  const auto cosine = at::mm(codes / codes.norm(2, 1, true), (z / z.norm(2, 1, true)).t());
  EXPECT_TRUE(at::equal(most_similar(codes, z), cosine.argmax(1)));
}

TEST(Anchor, RandomOnesAreLatentsAndUsedCodesStay) {
  const auto group = make_single_group();
  torch::manual_seed(2);
  const auto z = at::randn({64, 3}), start = at::randn({16, 3});
  auto config = restart(1, 0.99);
  config.of<AnchorReplacementConfig>().anchor = "random";
  auto codebook = start.clone();
  const auto policy = anchor_replacement_kind().make(config, codebook);
  const auto rows =
      policy->after_step(codebook, {z, at::zeros({64}, at::kLong), seed_of(1), *group});
  EXPECT_TRUE(at::equal(codebook[0], start[0]));
  EXPECT_TRUE(at::equal(rows, at::arange(16).gt(0)));
  const double kept = 1 - std::exp(-1e-3);
  const auto anchors = (codebook - start * kept) / (1 - kept);
  const auto nearest = std::get<0>((anchors.unsqueeze(1) - z.unsqueeze(0)).norm(2, 2).min(1));
  EXPECT_LT(nearest.slice(0, 1).max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace nsvq
