#include <gtest/gtest.h>

#include "nsvq/quantizers/quantizer.h"
#include "tests/quantizers/golden.h"

namespace nsvq {
namespace {

// quantizers.py computed these in PyTorch with autograd.
TEST(QuantizerGolden, LossesAndGradientsEqualPyTorchs) {
  const auto cases = golden("quantizers");
  ASSERT_GE(cases.size(), 8u);
  for (const auto& expected : cases) {
    const auto shape = expected.at("shape").get<std::vector<int64_t>>();
    QuantizerConfig config;
    config.type = expected.at("type");
    config.codes = expected.at("codes");
    SCOPED_TRACE(fmt::format("{} with {} codes", config.type, config.codes));
    const auto quantizer = make_quantizer(config, shape[1]);
    quantizer->to(at::kDouble);
    {
      const torch::NoGradGuard no_grad;
      quantizer->codebook().copy_(formula({config.codes, shape[1]}, 0.6, 1.7));
    }
    const auto latents = formula(shape, 0.8, 0.1).requires_grad_();
    const auto result = quantizer->quantize(latents, {.commitment = expected.at("commitment"),
                                                      .neighbours = expected.at("neighbours")});
    (result.loss + (result.latents * formula(shape, 1.0, 2.9)).sum()).backward();

    EXPECT_NEAR(result.loss.item<double>(), expected.at("loss").get<double>(), 1e-12);
    const auto as_tensor = [&](const char* key) {
      return at::tensor(expected.at(key).get<std::vector<double>>(), at::kDouble);
    };
    EXPECT_TRUE(at::equal(result.indices.flatten(), as_tensor("indices").to(at::kLong)));
    EXPECT_LE((latents.grad().flatten() - as_tensor("latent_gradient")).abs().max().item<double>(),
              1e-12);
    EXPECT_LE((quantizer->codebook().grad().flatten() - as_tensor("codebook_gradient"))
                  .abs()
                  .max()
                  .item<double>(),
              1e-12);
  }
}

}  // namespace
}  // namespace nsvq
