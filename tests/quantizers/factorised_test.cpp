#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "nsvq/quantizers/codebook.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"

namespace nsvq {
namespace {

TEST(Factorised, EqualsTheReference) { check_golden("factorised", 2); }

TEST(Factorised, CodesStartAtLengthOne) {
  for (const char* init : {"gaussian", "uniform"}) {
    auto one = member("factorised");
    one.config.init = init;
    const auto lengths = make(one)->codebook().norm(2, 1);
    EXPECT_TRUE(at::allclose(lengths, at::ones_like(lengths))) << init;
  }
}

TEST(Factorised, LengthsOfLatentsAndCodesDoNotMatter) {
  const auto one = member("factorised");
  const auto quantizer = make(one);
  const auto z = latents_for(one);
  const auto before = quantizer->quantize(z, {});
  {
    const torch::NoGradGuard no_grad;
    quantizer->codebook().mul_(4);
  }
  const auto after = quantizer->quantize(z * 8, {});
  EXPECT_TRUE(at::equal(before.indices, after.indices));
  EXPECT_EQ(before.loss.item<double>(), after.loss.item<double>());
  EXPECT_TRUE(at::equal(before.latents, after.latents));
}

TEST(Factorised, TheWinnerHasTheLargestCosine) {
  const auto one = member("factorised");
  const auto quantizer = make(one);
  const auto flat = flatten_latents(latents_for(one));
  const auto best = flat.matmul(quantizer->code_vectors().t()).argmax(1);
  EXPECT_TRUE(at::equal(quantizer->encode(latents_for(one)).flatten(), best));
}

TEST(Factorised, AZeroLatentIsNoNaN) {
  const auto one = member("factorised");
  const auto z = at::zeros({1, one.dim, 1, 1}).requires_grad_();
  const auto result = make(one)->quantize(z, {});
  result.loss.backward();
  EXPECT_TRUE(at::isfinite(result.loss).item<bool>());
  EXPECT_TRUE(at::isfinite(z.grad()).all().item<bool>());
}

}  // namespace
}  // namespace nsvq
