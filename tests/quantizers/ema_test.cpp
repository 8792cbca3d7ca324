#include "nsvq/quantizers/members/ema.h"

#include <gtest/gtest.h>

#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

/// The buffer of this name, to be read and overwritten.
torch::Tensor buffer(const Quantizer& quantizer, const std::string& name) {
  return quantizer.named_buffers()[name];
}

void set_codes(EmaQuantizer& quantizer, const torch::Tensor& codes) {
  quantizer.codebook().copy_(codes);
  quantizer.rows_replaced(at::ones({codes.size(0)}, at::kBool));
}

/// A step on latents [B, d, h, w] with codes as they are chosen.
void step_on(Quantizer& quantizer, const torch::Tensor& latents, Group& group) {
  const auto indices = quantizer.quantize(latents, {}).indices.flatten();
  quantizer.update_statistics({flatten_latents(latents), indices, seed_of(0), group});
}

TEST(Ema, StepsEqualVectorQuantizePytorchs) {
  const auto group = make_single_group();
  for (const auto& expected : golden("ema")) {
    QuantizerConfig config;
    config.codes = expected.at("codes");
    config.of<RunningMeansConfig>() = {expected.at("decay"), expected.at("smoothing")};
    const int64_t dim = expected.at("dim");
    SCOPED_TRACE(
        fmt::format("{} codes, decay {}", config.codes, expected.at("decay").get<double>()));
    EmaQuantizer quantizer(config, dim);
    set_codes(quantizer, formula({config.codes, dim}, 0.6, 1.7));
    double number = 0;
    for (const auto& step : expected.at("steps")) {
      const auto z = formula({2, dim, 3, 5}, 0.8, 0.1 + number++).to(at::kFloat).requires_grad_();
      const auto result = quantizer.quantize(z, {});
      result.loss.backward();
      EXPECT_NEAR(result.loss.item<double>(), step.at("loss").get<double>(), 1e-6);
      EXPECT_EQ(farthest(result.indices, step.at("indices")), 0);
      EXPECT_NEAR(z.grad().abs().sum().item<double>(), step.at("latent_gradient_sum").get<double>(),
                  1e-6);
      quantizer.update_statistics(
          {flatten_latents(z.detach()), result.indices.flatten(), seed_of(0), *group});
      EXPECT_LE(farthest(buffer(quantizer, "counts"), step.at("counts")), 1e-6);
      EXPECT_LE(farthest(quantizer.codebook().norm(2, 1), step.at("codebook_norms")), 2e-6);
      if (step.contains("codebook")) {
        EXPECT_LE(farthest(quantizer.codebook(), step.at("codebook")), 2e-6);
      }
    }
  }
}

TEST(Ema, CodesAreSmoothedRunningMeans) {
  const auto group = make_single_group();
  QuantizerConfig config;
  config.codes = 9;
  config.of<RunningMeansConfig>() = {0.7, 0.05};
  torch::manual_seed(1);
  EmaQuantizer quantizer(config, 5);
  auto n = at::ones({9}, at::kDouble), s = quantizer.codebook().to(at::kDouble);
  for (int step = 0; step < 6; ++step) {
    const auto z = at::randn({40, 5}) * 0.4;
    const auto indices = at::randint(0, 7, {40}, at::kLong);  // two codes are never chosen
    quantizer.update_statistics({z, indices, seed_of(0), *group});
    const auto chosen = at::one_hot(indices, 9).to(at::kDouble);
    n = 0.7 * n + 0.3 * chosen.sum(0);
    s = 0.7 * s + 0.3 * at::mm(chosen.t(), z.to(at::kDouble));
    const auto total = n.sum();
    const auto codes = s / ((n + 0.05) / (total + 9 * 0.05) * total).unsqueeze(1);
    EXPECT_TRUE(at::allclose(quantizer.codebook().to(at::kDouble), codes, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(buffer(quantizer, "sums").to(at::kDouble), s, 1e-5, 1e-6));
  }
}

TEST(Ema, DefaultsAreTheReferences) {
  EXPECT_EQ(RunningMeansConfig{}.decay, 0.99);
  EXPECT_EQ(RunningMeansConfig{}.smoothing, 1e-5);
}

TEST(Ema, TheLossIsTheCommitmentAlone) {
  const auto small = member("ema");
  const auto quantizer = make(small);
  EXPECT_TRUE(quantizer->parameters().empty());
  const auto z = latents_for(small).requires_grad_();
  const auto result = quantizer->quantize(z, {});
  result.loss.backward();
  const auto difference = (z - quantizer->decode(result.indices)).detach();
  EXPECT_NEAR(result.loss.item<double>(), 0.25 * difference.square().mean().item<double>(), 1e-7);
  EXPECT_TRUE(at::allclose(z.grad(), difference * (0.25 * 2 / static_cast<double>(z.numel()))));
  const auto frozen = quantizer->quantize(z, {.commitment = false});
  EXPECT_EQ(frozen.loss.item<double>(), 0);
  EXPECT_EQ(frozen.terms.at("commitment").item<double>(),
            result.terms.at("commitment").item<double>());
}

TEST(Ema, TwoRanksWithHalvesEqualOneWithTheWhole) {
  const auto small = member("ema");
  const auto whole = make(small), first = make(small), second = make(small);
  const auto group = make_single_group();
  const auto z = latents_for(small, 6);
  for (int i = 0; i < 3; ++i) step_on(*whole, z, *group);
  on_two_ranks([&](int rank, Group& both) {
    auto& mine = rank == 0 ? *first : *second;
    const auto half = rank == 0 ? z.slice(0, 0, 2) : z.slice(0, 2);  // not even equal ones
    for (int i = 0; i < 3; ++i) step_on(mine, half, both);
  });
  for (const auto& item : whole->named_buffers()) {
    SCOPED_TRACE(item.key());
    EXPECT_TRUE(at::allclose(item.value(), buffer(*first, item.key()), 1e-5, 1e-6));
    EXPECT_TRUE(at::equal(buffer(*second, item.key()), buffer(*first, item.key())));
  }
}

TEST(Ema, BuffersAreAllOfItsState) {
  const auto small = member("ema");
  const auto original = make(small), copy = make(small);
  const auto group = make_single_group();
  const auto z = latents_for(small, 4);
  step_on(*original, z, *group);
  for (const auto& item : original->named_buffers()) {
    buffer(*copy, item.key()).copy_(item.value());
  }
  EXPECT_EQ(original->named_buffers().size(), 3u);
  step_on(*original, z * 0.7, *group);
  step_on(*copy, z * 0.7, *group);
  for (const auto& item : original->named_buffers()) {
    EXPECT_TRUE(at::equal(item.value(), buffer(*copy, item.key()))) << item.key();
  }
}

TEST(Ema, AReplacedCodeIsNotBroughtBack) {
  auto small = member("ema");
  small.config.codes = 4;
  const auto quantizer = make(small);
  const auto group = make_single_group();
  const auto elsewhere = at::full({6}, 9.0f);
  const auto others = at::randint(0, 3, {20}, at::kLong);
  const auto z = at::randn({20, 6});
  for (int i = 0; i < 5; ++i) quantizer->update_statistics({z, others, seed_of(0), *group});
  quantizer->codebook()[3].copy_(elsewhere);
  const auto kept = buffer(*quantizer, "sums").clone();
  quantizer->rows_replaced(at::tensor({0, 0, 0, 1}).to(at::kBool));
  EXPECT_EQ(buffer(*quantizer, "counts")[3].item<double>(), 1);
  EXPECT_TRUE(at::equal(buffer(*quantizer, "sums").slice(0, 0, 3), kept.slice(0, 0, 3)));
  quantizer->update_statistics({z, others, seed_of(0), *group});
  EXPECT_TRUE(at::allclose(quantizer->codebook()[3], elsewhere, 1e-4));
}

TEST(Ema, CodesFromDataStartAsMeansOfThemselves) {
  auto small = member("ema");
  small.config.init = "data";
  const auto quantizer = make(small);
  quantizer->initialise_from(flatten_latents(latents_for(small, 4)), 1);
  EXPECT_TRUE(at::equal(buffer(*quantizer, "sums"), quantizer->codebook()));
  EXPECT_TRUE(buffer(*quantizer, "counts").eq(1).all().item<bool>());
}

TEST(Ema, LongDisuseLeavesCodesFinite) {
  for (const double smoothing : {0.0, 1e-5}) {
    auto small = member("ema");
    small.config.codes = 3;
    small.config.of<RunningMeansConfig>() = {0.5, smoothing};
    const auto quantizer = make(small);
    const auto group = make_single_group();
    const auto z = at::randn({4, 6});
    for (int i = 0; i < 400; ++i) {
      quantizer->update_statistics({z, at::zeros({4}, at::kLong), seed_of(0), *group});
    }
    EXPECT_TRUE(at::isfinite(quantizer->codebook()).all().item<bool>());
    EXPECT_TRUE(at::allclose(quantizer->codebook()[0], z.mean(0), 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace nsvq
