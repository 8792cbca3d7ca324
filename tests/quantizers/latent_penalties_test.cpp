#include "nsvq/quantizers/losses_of_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/quantizers/codebook.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

/// Latents whose channels differ in scale and depend on each other.
torch::Tensor mixed_latents(const Member& one) {
  torch::manual_seed(6);
  const auto mix = at::randn({one.dim, one.dim});
  return at::einsum("bchw,cd->bdhw", {latents_for(one, 3), mix}).contiguous();
}

struct Figures {
  double correlation, concentration;
};

/// By standardised columns and by eigenvalues, in fp64.
Figures reference(const torch::Tensor& latents) {
  const auto rows = flatten_latents(latents).to(at::kDouble);
  const auto centred = rows - rows.mean(0);
  const auto standard = centred / centred.square().mean(0).sqrt();
  const auto n = static_cast<double>(rows.size(0));
  const int64_t d = rows.size(1);
  const auto correlations = standard.t().matmul(standard) / n;
  const auto others = at::ones({d, d}, at::kBool).logical_xor(at::eye(d).to(at::kBool));
  const auto eigenvalues = at::linalg_eigvalsh(centred.t().matmul(centred) / n);
  return {correlations.masked_select(others).square().mean().item<double>(),
          (eigenvalues.square().sum() / eigenvalues.sum().square()).item<double>()};
}

TEST(LatentPenalties, AreTheFiguresOfTheCovarianceForEveryQuantizer) {
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    SCOPED_TRACE(kind.name);
    auto one = member(kind.name);
    const auto z = mixed_latents(one);
    const auto plain = make(one)->quantize(z, {.seed = seed_of(5)});
    one.config.decorrelation = 0.5;
    one.config.participation = 2;
    const auto with = make(one)->quantize(z, {.seed = seed_of(5)});
    const auto expected = reference(z);
    EXPECT_NEAR(with.terms.at("correlation").item<double>(), expected.correlation, 1e-5);
    EXPECT_NEAR(with.terms.at("participation").item<double>(), 1 / expected.concentration, 1e-4);
    EXPECT_NEAR((with.loss - plain.loss).item<double>(),
                0.5 * expected.correlation + 2 * expected.concentration, 1e-4);
    EXPECT_TRUE(at::equal(with.latents, plain.latents));
    EXPECT_FALSE(plain.terms.count("correlation") + plain.terms.count("participation"));
    const auto frozen = make(one)->quantize(z, {.commitment = false, .seed = seed_of(5)});
    EXPECT_FALSE(frozen.terms.count("correlation") + frozen.terms.count("participation"));
  }
}

TEST(LatentPenalties, GradientsAreThoseOfTheFigures) {
  const auto one = member("nsvq");
  const auto z = mixed_latents(one);
  const auto gradient = [&](const LatentPenalties& penalties) {
    const auto input = z.to(at::kDouble).requires_grad_();
    Quantized quantized{.loss = at::zeros({}, at::kDouble)};
    penalise_latents(input, penalties, quantized);
    quantized.loss.backward();
    return input.grad();
  };
  for (const LatentPenalties& penalties :
       {LatentPenalties{.decorrelation = 1}, LatentPenalties{.participation = 1}}) {
    const auto value = [&](const torch::Tensor& latents) {
      const auto [correlation, concentration] = reference(latents);
      return penalties.decorrelation * correlation + penalties.participation * concentration;
    };
    const auto analytic = gradient(penalties);
    auto moved = z.to(at::kDouble);
    for (const int64_t channel : {0, 3}) {
      auto number = moved[1][channel][2][1];
      const double before = number.item<double>(), h = 1e-5;
      number.fill_(before + h);
      const double above = value(moved);
      number.fill_(before - h);
      const double below = value(moved);
      number.fill_(before);
      EXPECT_NEAR(analytic[1][channel][2][1].item<double>(), (above - below) / (2 * h), 1e-7);
    }
  }
}

TEST(LatentPenalties, AreFiniteWithoutVariance) {
  Quantized quantized{.loss = at::zeros({})};
  const auto z = at::ones({1, 3, 2, 2}).requires_grad_();
  penalise_latents(z, {.decorrelation = 1, .participation = 1}, quantized);
  EXPECT_EQ(quantized.loss.item<double>(), 0);
  quantized.loss.backward();
  EXPECT_TRUE(at::isfinite(z.grad()).all().item<bool>());
  for (const auto& [name, value] : quantized.terms) EXPECT_EQ(value.item<double>(), 0) << name;
}

TEST(LatentPenalties, OneLatentHasNoVariance) {
  for (const auto& kind : quantizer_kinds()) {
    if (!kind.untrained.empty()) continue;
    auto one = member(kind.name);
    one.config.decorrelation = one.config.participation = 1;
    const auto z = latents_for(one, 1, 1, 1).requires_grad_();
    const auto found = make(one)->quantize(z, {.seed = seed_of(5)});
    EXPECT_EQ(found.terms.at("correlation").item<double>(), 0) << kind.name;
    EXPECT_EQ(found.terms.at("participation").item<double>(), 0) << kind.name;
    EXPECT_TRUE(at::isfinite(found.loss).item<bool>()) << kind.name;
  }
}

TEST(LatentPenalties, AreOfTheLatentsInFp32WhateverTheirPrecision) {
  auto one = member("vq");
  one.config.decorrelation = one.config.participation = 1;
  const auto half = mixed_latents(one).to(at::kHalf);
  const auto quantizer = make(one);
  const auto a = quantizer->quantize(half * 100, {});
  const auto b = quantizer->quantize((half * 100).to(at::kFloat), {});
  EXPECT_TRUE(at::equal(a.loss, b.loss));
  EXPECT_TRUE(at::isfinite(a.loss).item<bool>());
}

TEST(LatentPenalties, ANaNShowsInTheLoss) {
  Quantized quantized{.loss = at::zeros({})};
  auto z = at::randn({2, 3, 2, 2});
  z[0][0][0][0] = NAN;
  penalise_latents(z, {.decorrelation = 1}, quantized);
  EXPECT_TRUE(at::isnan(quantized.loss).item<bool>());
  quantized.loss = at::zeros({});
  penalise_latents(z, {.participation = 1}, quantized);
  EXPECT_TRUE(at::isnan(quantized.loss).item<bool>());
}

TEST(LatentPenalties, OneChannelHasNoCorrelation) {
  Quantized quantized{.loss = at::zeros({})};
  penalise_latents(at::randn({2, 1, 3, 3}), {.decorrelation = 1}, quantized);
  EXPECT_EQ(quantized.loss.item<double>(), 0);
}

}  // namespace
}  // namespace nsvq
