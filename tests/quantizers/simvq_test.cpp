#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(SimVq, EqualsTheReferenceAlsoWithTheNsLoss) { check_golden("simvq", 4); }

TEST(SimVq, TheCodebookIsFrozenAndKeptInCheckpoints) {
  const auto quantizer = make(member("simvq"));
  EXPECT_EQ(quantizer->parameters().size(), 2u);
  ASSERT_TRUE(quantizer->named_buffers().contains("codebook"));
  EXPECT_FALSE(quantizer->named_buffers()["codebook"].requires_grad());
  EXPECT_FALSE(quantizer->codebook().defined());
}

TEST(SimVq, FirstValuesHaveTheirScales) {
  QuantizerConfig config;
  config.type = "simvq";
  config.codes = 4096;
  torch::manual_seed(0);
  const auto quantizer = make_quantizer(config, 64);
  EXPECT_NEAR(quantizer->named_buffers()["codebook"].std().item<double>(), 1.0 / 8, 1e-3);
  const auto weight = quantizer->named_parameters()["projection.weight"];
  EXPECT_NEAR(weight.abs().max().item<double>(), 1.0 / 8, 1e-3);  // U(-d^-1/2, d^-1/2)
  EXPECT_TRUE(quantizer->named_parameters().contains("projection.bias"));
}

TEST(SimVq, IndicesDecodeThroughTheProjection) {
  const auto quantizer = make(member("simvq"));
  const auto all = at::arange(37).view({1, 1, 37});
  const auto frozen = quantizer->named_buffers()["codebook"];
  const auto parameters = quantizer->named_parameters();
  const auto expected =
      frozen.matmul(parameters["projection.weight"].t()) + parameters["projection.bias"];
  const auto decoded = quantizer->decode(all).squeeze(2).squeeze(0).t();
  EXPECT_TRUE(at::allclose(decoded, expected, 1e-5, 1e-6));
  EXPECT_TRUE(at::equal(decoded, quantizer->code_vectors()));
  EXPECT_FALSE(quantizer->code_vectors().requires_grad());
}

TEST(SimVq, NoReplacement) {
  for (const char* type : {"simvq", "simvq_ns"}) {
    QuantizerSettings config;
    config.quantizer = member(type).config;
    const auto quantizer = make(member(type));
    EXPECT_EQ(make_replacement(config.replacement, config.quantizer, *quantizer), nullptr);
    config.replacement.policy = "copy";
    EXPECT_THROW(make_replacement(config.replacement, config.quantizer, *quantizer), UserError);
  }
}

TEST(SimVq, TheNsLossIsOneOfTheTerms) {
  const auto one = member("simvq_ns");
  const auto quantizer = make(one);
  EXPECT_TRUE(quantizer->quantize(latents_for(one), {}).terms.count("ns"));
  EXPECT_FALSE(
      quantizer->quantize(latents_for(one), {.extra_codebook_terms = false}).terms.count("ns"));
}

}  // namespace
}  // namespace nsvq
