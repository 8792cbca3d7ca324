#include "nsvq/quantizers/members.h"

#include <gtest/gtest.h>

#include "nsvq/core/error.h"
#include "tests/quantizers/golden.h"

namespace nsvq {
namespace {

std::shared_ptr<Quantizer> fsq(std::vector<int64_t> levels) {
  QuantizerConfig config;
  config.type = "fsq";
  const auto dim = static_cast<int64_t>(levels.size());
  config.of<FsqConfig>().levels = std::move(levels);
  return make_quantizer(config, dim);
}

/// Latents that the bound takes to the codes [B, d, h, w].
torch::Tensor latents_of(const torch::Tensor& codes, const std::vector<int64_t>& levels) {
  const auto l = at::tensor(levels, at::kDouble).view({-1, 1, 1});
  const auto half = (l - 1) * 1.001 / 2, offset = 0.5 * (1 - l.remainder(2));
  const auto at_level = codes.to(at::kDouble) * (l / 2).floor() + offset;
  return (at::atanh(at_level / half) - at::atanh(offset / half)).to(at::kFloat);
}

TEST(Fsq, EqualsTheReference) { check_golden("fsq", 3); }

TEST(Fsq, EveryIndexIsReachedByItsCode) {
  for (const auto& levels : std::vector<std::vector<int64_t>>{
           {8, 8, 8, 5, 5, 5}, {2}, {3}, {2, 3, 4}, {16, 16, 16}, {1001}, {65536}}) {
    SCOPED_TRACE(levels.size());
    const auto quantizer = fsq(levels);
    const auto all = at::arange(quantizer->codes()).view({1, 1, -1});
    const auto codes = quantizer->decode(all);
    EXPECT_LE(codes.abs().max().item<double>(), 1);
    if (levels.back() < 1000) {
      EXPECT_TRUE(at::equal(quantizer->encode(latents_of(codes, levels)), all));
      EXPECT_EQ(std::get<0>(at::unique_dim(codes.squeeze(2).squeeze(0), 1)).size(1),
                quantizer->codes());
    }
  }
  EXPECT_EQ(fsq({8, 8, 8, 5, 5, 5})->codes(), 64000);
}

TEST(Fsq, TheFirstChannelIsTheFastest) {
  const auto codes = fsq({8, 5})->decode(at::tensor({0, 1, 8, 39}, at::kLong).view({1, 1, 4}));
  const auto expected = at::tensor({-1.0, -0.75, -1.0, 0.75, -1.0, -1.0, -0.5, 1.0});
  EXPECT_TRUE(at::equal(codes.flatten(), expected.to(at::kFloat)));
}

// With thousands of levels the bound of (1 + 1e-3) reaches over the outermost level.
TEST(Fsq, IndicesStayInRangeForAnyLatent) {
  for (const int64_t levels : {2, 3, 8, 1001, 4096, 65535, 65536}) {
    const auto quantizer = fsq({levels});
    const auto z = at::tensor({-1e30, -50.0, 0.0, 50.0, 1e30}).to(at::kFloat).view({1, 1, 1, 5});
    const auto indices = quantizer->encode(z).flatten();
    EXPECT_EQ(indices[0].item<int64_t>(), 0) << levels;
    EXPECT_EQ(indices[4].item<int64_t>(), levels - 1) << levels;
    EXPECT_TRUE(
        at::equal(quantizer->decode(quantizer->encode(z)), quantizer->quantize(z, {}).latents));
  }
}

TEST(Fsq, ReportsTheRoundingAsCommitmentAndHasNoLoss) {
  const auto z = at::tensor({0.3, -0.1}).to(at::kFloat).view({1, 2, 1, 1});
  const auto result = fsq({5, 5})->quantize(z, {});
  const auto bounded = z.tanh() * 2.002 / 2;
  EXPECT_EQ(result.loss.item<double>(), 0);
  EXPECT_NEAR(result.terms.at("commitment").item<double>(),
              (bounded - result.latents).square().mean().item<double>(), 1e-7);
}

TEST(Fsq, RefusesWhatDoesNotFit) {
  QuantizerConfig config;
  config.type = "fsq";
  EXPECT_THROW(make_quantizer(config, 5), UserError);
  EXPECT_NO_THROW(make_quantizer(config, 6));
  config.rotation = true;
  EXPECT_THROW(make_quantizer(config, 6), UserError);
  config.rotation = false;
  config.of<FsqConfig>().levels = {65536, 65536, 65536, 65536, 65536, 65536};
  EXPECT_THROW(make_quantizer(config, 6), UserError);
}

}  // namespace
}  // namespace nsvq
