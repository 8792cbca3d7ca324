// What has no tokens: latents pass unchanged.

#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(NoQuantizer, LatentsPassUnchangedWithTheirGradients) {
  const auto one = member("none");
  const auto quantizer = make(one);
  const auto z = latents_for(one).requires_grad_();
  const auto result = quantizer->quantize(z, {});
  EXPECT_TRUE(at::equal(result.latents, z));
  const auto weight = at::randn_like(z);
  (result.loss + (result.latents * weight).sum()).backward();
  EXPECT_TRUE(at::equal(z.grad(), weight));
}

TEST(NoQuantizer, HasNothingToTrainAndNoLoss) {
  const auto one = member("none");
  const auto quantizer = make(one);
  EXPECT_TRUE(quantizer->parameters().empty());
  EXPECT_TRUE(quantizer->buffers().empty());
  EXPECT_EQ(quantizer->codes(), 0);
  EXPECT_FALSE(quantizer->code_vectors().defined());
  const auto result = quantizer->quantize(latents_for(one), {});
  EXPECT_EQ(result.loss.item<double>(), 0);
  EXPECT_EQ(result.loss.dim(), 0);
  ASSERT_EQ(result.terms.size(), 1u);
  EXPECT_EQ(result.terms.at("commitment").item<double>(), 0);
}

TEST(NoQuantizer, HasNoTokens) {
  const auto one = member("none");
  const auto quantizer = make(one);
  const auto z = latents_for(one);
  const auto assigned = quantizer->assign(z);
  EXPECT_TRUE(at::equal(assigned.latents, z));
  for (const auto& indices : {assigned.indices, quantizer->quantize(z, {}).indices}) {
    EXPECT_EQ(indices.sizes(), at::IntArrayRef({2, 0, 0}));
    EXPECT_EQ(indices.scalar_type(), at::kLong);
  }
  const auto refusal = "quantizer.type is none";
  EXPECT_NE(error_of([&] { quantizer->encode(z); }).find(refusal), std::string::npos);
  EXPECT_NE(error_of([&] { quantizer->decode(assigned.indices); }).find(refusal),
            std::string::npos);
}

TEST(NoQuantizer, HalfPrecisionIsWidened) {
  const auto one = member("none");
  const auto half = latents_for(one).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(make(one)->quantize(half, {}).latents, half.to(at::kFloat)));
  EXPECT_EQ(make(one)->assign(half).latents.scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace nsvq
