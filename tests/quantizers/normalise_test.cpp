// quantizer.normalise: latents and codes divided by their norms before search, losses and decoding.

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/ops/code_search/code_search_reference.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

/// torch.nn.functional.normalize along dimension 1.
torch::Tensor normalised(const torch::Tensor& vectors) {
  return vectors / vectors.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

/// The members that take the setting.
std::vector<std::string> normalising_members() {
  std::vector<std::string> result;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.refuses_norms.empty()) result.push_back(kind.name);
  }
  return result;
}

class Normalised : public testing::TestWithParam<std::string> {
 protected:
  Normalised() { member_.config.normalise = true; }

  /// Latents of many lengths.
  torch::Tensor latents(int64_t batch = 3) {
    const auto z = latents_for(member_, batch, 7, 5);
    return z * (at::rand({batch, 1, 7, 5}) * 8 + 0.1);
  }
  /// The codes [K, d] before they are divided by their norms, with gradients.
  torch::Tensor raw_codes(Quantizer& quantizer) {
    if (const auto codebook = quantizer.codebook(); codebook.defined()) return codebook;
    const auto buffers = quantizer.named_buffers();
    const auto* features = buffers.find("features");
    const auto parameters = quantizer.named_parameters();
    return at::linear(features ? *features : buffers["codebook"], parameters["projection.weight"],
                      parameters["projection.bias"]);
  }
  /// L_vq by its formula, of latents and codes as they are searched for.
  torch::Tensor loss(const torch::Tensor& z, const torch::Tensor& codes,
                     const torch::Tensor& indices, const torch::Tensor& chosen) {
    const auto& type = GetParam();
    const auto& config = member_.config;
    const auto commitment = at::mse_loss(z, chosen.detach());
    const auto embedding = at::mse_loss(chosen, z.detach());
    if (type == "vqgan_lc") return commitment + 0.33 * embedding;
    if (type == "ema" || type == "jukebox" || type == "soundstream")
      return config.beta * commitment;
    auto sum = embedding + config.beta * commitment;
    if (type == "nsvq" || type == "simvq_ns") {
      const auto rows = flatten_latents(z.detach());
      sum = sum + config.alpha * ns_loss_reference(rows, codes, indices, config.tau);
    }
    return sum;
  }

  Member member_ = member(GetParam());
};

TEST_P(Normalised, IndicesLossesAndGradientsAreThoseOfTheFormulas) {
  for (const std::string operators : {"streaming", "plain"}) {
    SCOPED_TRACE(operators);
    member_.config.operators = operators;
    const auto ours = make(member_), other = make(member_);
    const auto z = latents().requires_grad_(), same = z.detach().clone().requires_grad_();
    const auto weight = at::randn_like(z);
    const auto found = ours->quantize(z, {});
    (found.loss + (found.latents * weight).sum()).backward();

    const auto unit = normalised(same), codes = normalised(raw_codes(*other));
    const auto indices = flatten_latents(unit).matmul(codes.t()).argmax(1);
    const auto chosen = look_up(codes, to_grid(indices, z));
    const auto expected = loss(unit, codes, indices, chosen);
    const auto passed = unit + (chosen - unit).detach();
    (expected + (passed * weight).sum()).backward();

    EXPECT_TRUE(at::equal(found.indices.flatten(), indices));
    EXPECT_TRUE(at::allclose(found.loss, expected, 1e-5, 1e-7));
    EXPECT_TRUE(at::allclose(found.latents, chosen, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(z.grad(), same.grad(), 1e-4, 1e-6));
    for (const auto& item : ours->named_parameters()) {
      const auto theirs = other->named_parameters()[item.key()].grad();
      ASSERT_EQ(item.value().grad().defined(), theirs.defined()) << item.key();
      if (!theirs.defined()) continue;
      EXPECT_TRUE(at::allclose(item.value().grad(), theirs, 1e-4, 1e-6)) << item.key();
    }
  }
}

TEST_P(Normalised, TokensDecodeToTheCodesThatAreSearched) {
  const auto quantizer = make(member_);
  const auto z = latents();
  const auto indices = quantizer->encode(z), all = at::arange(quantizer->codes()).view({1, 1, -1});
  const auto result = quantizer->quantize(z, {});
  EXPECT_TRUE(at::equal(indices, result.indices));
  EXPECT_TRUE(at::equal(quantizer->decode(indices), result.latents));
  EXPECT_TRUE(at::equal(quantizer->assign(z).latents, result.latents));
  const auto codes = quantizer->code_vectors();
  EXPECT_TRUE(at::equal(quantizer->decode(all).squeeze(2).squeeze(0).t(), codes));
  EXPECT_TRUE(at::allclose(codes.norm(2, 1), at::ones({codes.size(0)}), 1e-5, 0));
  EXPECT_FALSE(codes.requires_grad());
  EXPECT_EQ(quantizer->distance(), Distance::cosine);
  EXPECT_TRUE(at::allclose(quantizer->compared(z), normalised(z), 1e-6, 1e-7));
}

TEST_P(Normalised, LengthsOfLatentsDoNotMatter) {
  const auto quantizer = make(member_);
  const auto z = latents();
  const auto a = quantizer->quantize(z, {}), b = quantizer->quantize(z * 8, {});
  EXPECT_TRUE(at::equal(a.indices, b.indices));
  EXPECT_EQ(a.loss.item<double>(), b.loss.item<double>());
}

TEST_P(Normalised, ZeroVectorsStayFinite) {
  const auto quantizer = make(member_);
  if (const auto codebook = quantizer->codebook(); codebook.defined()) {
    const torch::NoGradGuard no_grad;
    codebook[1].zero_();
  }
  const auto z = at::zeros({1, member_.dim, 2, 1}).requires_grad_();
  const auto result = quantizer->quantize(z, {});
  (result.loss + result.latents.sum()).backward();
  EXPECT_TRUE(at::isfinite(result.loss).item<bool>());
  EXPECT_TRUE(at::isfinite(z.grad()).all().item<bool>());
  EXPECT_TRUE(at::equal(quantizer->decode(quantizer->encode(z.detach())), result.latents));
}

TEST_P(Normalised, OneCodeAndNoLatents) {
  member_.config.codes = 1;
  const auto one = make(member_);
  EXPECT_EQ(one->encode(latents()).max().item<int64_t>(), 0);
  EXPECT_TRUE(at::isfinite(one->quantize(latents(), {}).loss).item<bool>());
  const auto none = one->encode(latents().slice(0, 0, 0));
  EXPECT_EQ(none.sizes(), (torch::IntArrayRef{0, 7, 5}));
  EXPECT_EQ(one->decode(none).sizes(), (torch::IntArrayRef{0, member_.dim, 7, 5}));
}

TEST_P(Normalised, LatentsThatAreNotFiniteAreRefused) {
  for (const float value : {NAN, INFINITY}) {
    auto z = latents();
    z[0][0][0][0] = value;
    EXPECT_ANY_THROW(make(member_)->encode(z)) << value;
  }
}

/// Lengths of latents have no say in what running means and first codes become.
TEST_P(Normalised, StatisticsAreOfNormalisedLatents) {
  member_.config.init = "data";
  member_.config.tau_of_nearest = 1;
  const auto one = make(member_), other = make(member_);
  const auto group = make_single_group();
  const auto rows = flatten_latents(latents());
  for (const auto& [quantizer, z] : {std::pair{one, rows}, {other, normalised(rows)}}) {
    if (quantizer->wants_data()) quantizer->initialise_from(z, 3);
    const auto indices = quantizer->encode(z.t().unsqueeze(0).unsqueeze(2)).flatten();
    quantizer->update_statistics({z, indices, seed_of(0), *group});
  }
  for (const auto& item : one->named_buffers()) {
    EXPECT_TRUE(at::allclose(item.value(), other->named_buffers()[item.key()], 1e-4, 1e-6))
        << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Members, Normalised, testing::ValuesIn(normalising_members()),
                         [](const auto& info) { return info.param; });

TEST(Normalise, CodesStartAtLengthOne) {
  auto one = member("vq");
  one.config.normalise = true;
  for (const char* init : {"gaussian", "uniform", "normal"}) {
    one.config.init = init;
    const auto lengths = make(one)->codebook().norm(2, 1);
    EXPECT_TRUE(at::allclose(lengths, at::ones_like(lengths))) << init;
  }
}

/// factorised is vq with it.
TEST(Normalise, IsWhatFactorisedDoes) {
  auto plain = member("vq");
  plain.config.normalise = true;
  const auto vq = make(plain), factorised = make(member("factorised"));
  const auto z = latents_for(plain);
  const auto a = vq->quantize(z, {}), b = factorised->quantize(z, {});
  EXPECT_TRUE(at::equal(vq->codebook(), factorised->codebook()));
  EXPECT_TRUE(at::equal(a.latents, b.latents));
  EXPECT_EQ(a.loss.item<double>(), b.loss.item<double>());
}

TEST(Normalise, OthersRefuseItByName) {
  int refused = 0;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.refuses_norms.empty()) continue;
    auto one = member(kind.name);
    one.config.normalise = true;
    expect_contains(error_of([&] { make(one); }),
                    {"quantizer.normalise: " + kind.name + " ", "; set quantizer.normalise=false"});
    ++refused;
  }
  EXPECT_EQ(refused, 10);
}

}  // namespace
}  // namespace nsvq
