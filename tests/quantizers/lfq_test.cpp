#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(Lfq, EqualsTheReference) { check_golden("lfq", 6); }

TEST(Lfq, BitKWeighs2ToTheK) {
  auto one = member("lfq");
  const auto z = at::tensor({1, -1, 1, -1, -1, 1}, at::kFloat).view({1, 6, 1, 1});
  EXPECT_EQ(make(one)->encode(z).item<int64_t>(), 1 + 4 + 32);
}

TEST(Lfq, EveryIndexIsReachedByItsCode) {
  for (const int64_t bits : {1, 6, 16}) {
    QuantizerConfig config;
    config.type = "lfq";
    config.of<LfqConfig>().bits = bits;
    const auto quantizer = make_quantizer(config, bits);
    EXPECT_EQ(quantizer->codes(), int64_t{1} << bits);
    const auto all = at::arange(quantizer->codes()).view({1, -1, 1});
    EXPECT_TRUE(at::equal(quantizer->encode(quantizer->decode(all)), all));
  }
}

TEST(Lfq, ZeroIsMinusOne) {
  const auto result = make(member("lfq"))->quantize(at::zeros({1, 6, 1, 1}), {});
  EXPECT_EQ(result.indices.item<int64_t>(), 0);
  EXPECT_EQ(result.latents.max().item<double>(), -1);
}

TEST(Lfq, EntropyTermsAreLeftOutAtWeightZero) {
  auto one = member("lfq");
  one.config.of<LfqConfig>().entropy = 0;
  const auto result = make(one)->quantize(latents_for(one), {});
  EXPECT_FALSE(result.terms.count("batch_entropy"));
  EXPECT_FLOAT_EQ(result.loss.item<float>(), 0.25f * result.terms.at("commitment").item<float>());
}

TEST(Lfq, RefusesWhatDoesNotFit) {
  QuantizerConfig config;
  config.type = "lfq";
  EXPECT_THROW(make_quantizer(config, 128), UserError);
  EXPECT_NO_THROW(make_quantizer(config, 16));
  config.rotation = true;
  EXPECT_THROW(make_quantizer(config, 16), UserError);
}

}  // namespace
}  // namespace nsvq
