#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(Var, EqualsTheReference) {
  const auto cases = golden("var");
  ASSERT_EQ(cases.size(), 3u);
  for (const auto& expected : cases) {
    SCOPED_TRACE(expected.at("settings").dump());
    const torch::NoGradGuard no_grad;
    const auto quantizer = golden_quantizer(expected);
    const auto shape = expected.at("shape").get<std::vector<int64_t>>();
    const auto z = formula(shape, expected.at("scale"), 0.1);
    const auto found = quantizer->assign(z);
    EXPECT_TRUE(
        at::equal(found.indices.flatten(), tensor_of(expected.at("indices")).to(at::kLong)));
    expect_near(found.latents, expected.at("latents"));
    EXPECT_TRUE(at::equal(found.indices, quantizer->encode(z)));
    EXPECT_TRUE(at::equal(found.latents, quantizer->decode(found.indices)));
    // In fp32 the streaming search finds the same.
    quantizer->to(at::kFloat);
    const auto in_fp32 = quantizer->assign(z.to(at::kFloat));
    EXPECT_TRUE(at::equal(in_fp32.indices, found.indices));
    EXPECT_TRUE(at::allclose(in_fp32.latents.to(at::kDouble), found.latents, 1e-5, 1e-5));
  }
}

TEST(Var, TokensAreThoseOfItsGrids) {
  const auto one = member("var");
  const auto quantizer = make(one);
  const auto grids = quantizer->grids(5, 5);
  EXPECT_EQ(grids, (std::vector<TokenGrid>{{1, 1}, {2, 2}, {5, 5}}));
  EXPECT_EQ(shown_grids(grids), "30 tokens at 3 scales");
  const auto z = latents_for(one, 3, 5, 5);
  const auto tokens = quantizer->encode(z);
  EXPECT_EQ(tokens.sizes(), at::IntArrayRef({3, 30}));
  // Neither the layout nor the batch matters.
  EXPECT_TRUE(at::equal(quantizer->encode(z.contiguous(at::MemoryFormat::ChannelsLast)), tokens));
  EXPECT_TRUE(at::equal(quantizer->encode(z.slice(0, 1, 2)), tokens.slice(0, 1, 2)));
  // Nor whether tokens are a part of others.
  const auto among = at::stack({tokens, tokens + 0, tokens}, 1);
  EXPECT_TRUE(at::equal(quantizer->decode(among.select(1, 1)), quantizer->decode(tokens)));
  EXPECT_THROW(quantizer->decode(tokens.slice(1, 0, 29)), c10::Error);
  const auto none = quantizer->encode(z.slice(0, 0, 0));
  EXPECT_EQ(none.sizes(), at::IntArrayRef({0, 30}));
  EXPECT_EQ(quantizer->decode(none).sizes(), at::IntArrayRef({0, 6, 5, 5}));
}

TEST(Var, HasTheParametersOfVar) {
  auto one = member("var");
  one.config.codes = 4096;
  one.dim = 32;
  const auto quantizer = make(one);
  int64_t numbers = quantizer->code_vectors().numel();
  for (const auto& parameter : quantizer->parameters()) numbers += parameter.numel();
  EXPECT_EQ(numbers, 4096 * 32 + 4 * (32 * 32 * 9 + 32));
}

TEST(Var, ALatentThatIsNotFiniteIsFound) {
  const auto one = member("var");
  auto z = latents_for(one, 2, 5, 5);
  z[1][2][4][0] = NAN;
  EXPECT_THROW(make(one)->encode(z), c10::Error);
}

TEST(Var, TakesOneSizeAndIsNotTrained) {
  const auto one = member("var");
  expect_contains(error_of([&] { make(one)->encode(latents_for(one, 1, 5, 6)); }),
                  {"quantizer.var.scales end with grids of 5x5", "5x6"});
  expect_contains(error_of([&] { make(one)->quantize(latents_for(one, 1, 5, 5), {}); }),
                  {"quantizer.type: var", "nsvq does not train", "nsvq import"});
  expect_contains(error_of([&] { require_trained(one.config); }), {"quantizer.type: var"});
  EXPECT_NO_THROW(require_trained(member("vq").config));
}

}  // namespace
}  // namespace nsvq
