#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/codebook.h"
#include "tests/quantizers/golden.h"
#include "tests/quantizers/members.h"
#include "tests/two_ranks.h"

namespace nsvq {
namespace {

Member affine(const std::string& variant) {
  auto one = member("affine");
  one.config.beta = 0.95;
  one.config.of<AffineConfig>().variant = variant;
  return one;
}

void update_statistics(Quantizer& quantizer, const torch::Tensor& rows, Group& group) {
  quantizer.update_statistics({rows, at::zeros({rows.size(0)}, at::kLong), seed_of(0), group});
}

torch::Tensor statistics(Quantizer& quantizer) {
  return quantizer.named_buffers()["statistics"].clone();
}

torch::Tensor plain_moments(const torch::Tensor& rows) {
  return at::stack({rows.mean(0), rows.var(0, false)});
}

TEST(Affine, EqualsTheReference) { check_golden("affine", 3); }

/// Follows a batch of latents with other codes for each number of "followed".
void follow_batches(Quantizer& quantizer, const nlohmann::json& expected) {
  const torch::NoGradGuard no_grad;
  const auto group = make_single_group();
  const auto shape = expected.at("shape").get<std::vector<int64_t>>();
  auto codebook = quantizer.named_parameters()["codebook"];
  const auto own = codebook.clone();
  for (const double phase : expected.at("followed")) {
    codebook.copy_(formula(codebook.sizes(), expected.at("tensors").at("codebook")[0], phase));
    update_statistics(quantizer, flatten_latents(formula(shape, expected.at("scale"), phase)),
                      *group);
  }
  codebook.copy_(own);
}

TEST(Affine, RunningStatisticsEqualTheReference) {
  const auto cases = golden("affine_running");
  ASSERT_GE(cases.size(), 2u);
  for (const auto& expected : cases) {
    SCOPED_TRACE(expected.at("settings").dump());
    const auto quantizer = golden_quantizer(expected);
    follow_batches(*quantizer, expected);
    expect_near(statistics(*quantizer), expected.at("statistics"), "statistics");
    check_case(expected, *quantizer);
  }
}

TEST(Affine, StartsAsTheCodebook) {
  for (const char* variant : {"learned", "running"}) {
    const auto quantizer = make(affine(variant));
    EXPECT_TRUE(
        at::equal(quantizer->code_vectors(), quantizer->named_parameters()["codebook"].detach()));
  }
}

TEST(Affine, TheFirstStatisticsAreTakenAndLaterOnesMixedIn) {
  auto one = affine("running");
  one.config.of<AffineConfig>().momentum = 0.3;
  const auto quantizer = make(one);
  const auto group = make_single_group();
  torch::manual_seed(1);
  const auto first = at::randn({40, 6}) * 3 + 1, second = at::randn({40, 6}) - 2;
  update_statistics(*quantizer, first, *group);
  const auto codebook = quantizer->named_parameters()["codebook"].detach();
  const auto codes = plain_moments(codebook);
  EXPECT_TRUE(at::allclose(statistics(*quantizer), at::cat({plain_moments(first), codes})));
  update_statistics(*quantizer, second, *group);
  const auto mixed = 0.7 * plain_moments(first) + 0.3 * plain_moments(second);
  EXPECT_TRUE(at::allclose(statistics(*quantizer), at::cat({mixed, codes}), 1e-5, 1e-6));
}

TEST(Affine, RunningStatisticsTakeTheCodesToTheLatents) {
  const auto quantizer = make(affine("running"));
  const auto group = make_single_group();
  torch::manual_seed(1);
  const auto rows = at::randn({200, 6}) * at::tensor({1.0f, 2.0f, 0.1f, 5.0f, 1.0f, 0.5f}) + 7;
  update_statistics(*quantizer, rows, *group);
  EXPECT_TRUE(
      at::allclose(plain_moments(quantizer->code_vectors()), plain_moments(rows), 1e-4, 1e-5));
}

TEST(Affine, TheCodebooksGradientIsScaled) {
  auto one = affine("running");
  one.config.beta = 1;
  const auto quantizer = make(one);
  const auto group = make_single_group();
  const auto z = latents_for(one) * 4;
  update_statistics(*quantizer, flatten_latents(z), *group);
  const auto result = quantizer->quantize(z, {});
  result.loss.backward();
  const auto s = statistics(*quantizer);
  const auto scale = (s[1] / (s[3] + 1e-8)).sqrt();
  const auto flat = flatten_latents(z), indices = result.indices.flatten();
  const auto pull = 2 * (quantizer->code_vectors().index_select(0, indices) - flat) / z.numel();
  const auto expected = at::zeros({37, 6}).index_add(0, indices, pull) * scale;
  EXPECT_TRUE(at::allclose(quantizer->named_parameters()["codebook"].grad(), expected, 1e-4, 1e-6));
}

TEST(Affine, RanksHaveTheStatisticsOfTheWholeBatch) {
  torch::manual_seed(1);
  const auto rows = at::randn({50, 6}) * 3 + 1;
  const auto alone = make_single_group();
  const auto whole = make(affine("running"));
  update_statistics(*whole, rows, *alone);
  const auto first = make(affine("running")), second = make(affine("running"));
  on_two_ranks([&](int rank, Group& both) {
    update_statistics(rank == 0 ? *first : *second,
                      rank == 0 ? rows.slice(0, 0, 20) : rows.slice(0, 20), both);
  });
  EXPECT_TRUE(at::allclose(statistics(*first), statistics(*whole), 1e-6, 1e-7));
  EXPECT_TRUE(at::equal(statistics(*first), statistics(*second)));
}

TEST(Affine, LearnedHasNoStatistics) {
  const auto quantizer = make(affine("learned"));
  EXPECT_TRUE(quantizer->buffers().empty());
  EXPECT_EQ(quantizer->parameters().size(), 3u);
  EXPECT_FALSE(quantizer->codebook().defined());
}

TEST(Affine, CodesDrawnFromDataAreLatents) {
  auto one = affine("learned");
  one.config.init = "data";
  one.config.codes = 10;
  const auto quantizer = make(one);
  ASSERT_TRUE(quantizer->wants_data());
  const auto flat = flatten_latents(latents_for(one));
  quantizer->initialise_from(flat, 1);
  const auto same = quantizer->code_vectors().unsqueeze(1).eq(flat.unsqueeze(0)).all(2);
  EXPECT_TRUE(same.any(1).all().item<bool>());
}

TEST(Affine, RefusesABetaThatIsNoShare) {
  for (const double beta : {0.0, 1.5}) {
    auto one = affine("learned");
    one.config.beta = beta;
    EXPECT_THROW(make(one), UserError) << beta;
  }
}

}  // namespace
}  // namespace nsvq
