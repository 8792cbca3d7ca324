#include "nsvq/quantizers/replacement/replacement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/device.h"

namespace nsvq {
namespace {

torch::Tensor rows_numbered(int64_t codes) {
  return at::arange(codes, at::kFloat).unsqueeze(1).repeat({1, 3}) * 10;
}

/// Numbers of the rows that the policy copy overwrites at the end of the first epoch that is not
/// exempt.
torch::Tensor replace_dead_codes(torch::Tensor codebook, const torch::Tensor& usage,
                                 const ReplacementConfig& config, uint64_t seed) {
  const auto policy = copy_replacement_kind().make(config, {});
  const int64_t exempt = config.of<CopyReplacementConfig>().exempt_epochs;
  EXPECT_FALSE(policy->after_window(codebook, usage, {0, exempt}, seed).defined());
  const auto rows = policy->after_window(codebook, usage, {0, exempt + 1}, seed);
  return rows.defined() ? rows.nonzero().flatten() : at::empty({0}, at::kLong);
}

/// Which row each row is now a copy of.
torch::Tensor origins(const torch::Tensor& codebook) {
  return codebook.select(1, 0).div(10).round().to(at::kLong);
}

TEST(Replacement, DeadCodesBecomeCopiesOfActiveOnes) {
  auto codebook = rows_numbered(6);
  const auto usage = at::tensor({5, 0, 3, 0, 0, 1}, at::kLong);
  const auto rows = replace_dead_codes(codebook, usage, {}, 1);
  EXPECT_TRUE(at::equal(rows, at::tensor({1, 3, 4}, at::kLong)));
  const auto origin = origins(codebook);
  for (const int64_t active : {0, 2, 5}) {
    EXPECT_EQ(origin[active].item<int64_t>(), active);
    EXPECT_TRUE(at::equal(codebook[active], rows_numbered(6)[active])) << "an active code moved";
  }
  for (const int64_t dead : {1, 3, 4}) {
    const auto source = origin[dead].item<int64_t>();
    EXPECT_GT(usage[source].item<int64_t>(), 0);
    const double noise = (codebook[dead] - rows_numbered(6)[source]).abs().max().item<double>();
    EXPECT_GT(noise, 0);
    EXPECT_LT(noise, 0.006);
  }
}

TEST(Replacement, OnTheGpuRelativeNoiseHasTheSameSize) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const int64_t codes = 301;
  const auto usage = at::arange(codes, at::kLong).remainder(3);
  ReplacementConfig config;
  config.of<CopyReplacementConfig>() = {.sigma_relative = 0.001, .source = "most_used"};
  auto on_cpu = rows_numbered(codes), on_gpu = on_cpu.cuda();
  const auto rows = replace_dead_codes(on_cpu, usage, config, 5);
  replace_dead_codes(on_gpu, usage.cuda(), config, 5);
  const auto deviation = [&](const torch::Tensor& codebook) {
    return codebook.cpu().index_select(0, rows).std(0).mean().item<double>();
  };
  EXPECT_NEAR(deviation(on_gpu), deviation(on_cpu), 0.2 * deviation(on_cpu));
}

TEST(Replacement, OnTheGpuCopiesTheSameCodesWithNoiseOfTheSameSize) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const int64_t codes = 301;
  const auto usage = at::arange(codes, at::kLong).remainder(3);
  auto on_cpu = rows_numbered(codes), on_gpu = on_cpu.cuda(), again = on_cpu.cuda();
  const auto rows = replace_dead_codes(on_cpu, usage, {}, 5);
  EXPECT_TRUE(at::equal(replace_dead_codes(on_gpu, usage.cuda(), {}, 5).cpu(), rows));
  EXPECT_TRUE(at::equal(origins(on_gpu).cpu(), origins(on_cpu)));
  const auto noise =
      (on_gpu.cpu() - rows_numbered(codes).index_select(0, origins(on_cpu))).index_select(0, rows);
  EXPECT_NEAR(noise.std().item<double>(), 0.001, 0.0002);
  replace_dead_codes(again, usage.cuda(), {}, 5);
  EXPECT_TRUE(at::equal(again, on_gpu)) << "the seed decides";
}

TEST(Replacement, SourcesAreDrawnInProportionToUsage) {
  const int64_t codes = 20003;
  auto codebook = rows_numbered(codes);
  auto usage = at::zeros({codes}, at::kLong);
  usage[0] = 1;
  usage[1] = 3;
  usage[2] = 6;
  EXPECT_EQ(replace_dead_codes(codebook, usage, {}, 7).numel(), codes - 3);
  const auto origin = origins(codebook).slice(0, 3);
  for (const auto& [source, share] : {std::pair{0, 0.1}, {1, 0.3}, {2, 0.6}}) {
    EXPECT_NEAR(origin.eq(source).to(at::kDouble).mean().item<double>(), share, 0.015);
  }
}

TEST(Replacement, WindowsOfStepsHaveAnExemptionInSteps) {
  ReplacementConfig config;
  config.every_steps = 10;
  config.of<CopyReplacementConfig>().exempt_steps = 20;
  const auto policy = copy_replacement_kind().make(config, {});
  const auto usage = at::tensor({5, 0}, at::kLong);
  auto codebook = rows_numbered(2);
  EXPECT_FALSE(policy->after_window(codebook, usage, {.step = 20, .epoch = 9}, 1).defined());
  EXPECT_TRUE(policy->after_window(codebook, usage, {.step = 30, .epoch = 0}, 1).defined());
}

TEST(Replacement, MostUsedIsTheOtherSource) {
  auto codebook = rows_numbered(4);
  ReplacementConfig config;
  config.of<CopyReplacementConfig>() = {.sigma = 0, .source = "most_used"};
  replace_dead_codes(codebook, at::tensor({2, 0, 9, 0}, at::kLong), config, 1);
  EXPECT_TRUE(at::equal(origins(codebook), at::tensor({0, 2, 2, 2}, at::kLong)));
}

/// Deviation of what was added to copies of the only code that may be copied, and the codes' scale.
double noise_of_copies(double sigma, double sigma_relative, double scale) {
  ReplacementConfig config;
  config.of<CopyReplacementConfig>() = {
      .sigma = sigma, .sigma_relative = sigma_relative, .source = "most_used"};
  const int64_t codes = 4000;
  auto codebook = at::zeros({codes, 3});
  codebook[0].fill_(3 * scale);
  codebook[1].fill_(-scale);
  codebook[2].fill_(1e6);  // of no use: it is not chosen
  auto usage = at::zeros({codes}, at::kLong);
  usage[0] = 1;
  usage[1] = 3;
  replace_dead_codes(codebook, usage, config, 1);
  return (codebook.slice(0, 2) + scale).std().item<double>();
}

// Numbers of the active codes, by usage: 3 with a share of 1/4, -1 with 3/4, so a mean of 0 and a
// variance of 3.
TEST(Replacement, NoiseMayBeAShareOfTheSpreadOfActiveCodes) {
  for (const double scale : {1e-3, 1.0, 50.0}) {
    const double expected = 0.1 * std::sqrt(3.0) * scale;
    EXPECT_NEAR(noise_of_copies(0, 0.1, scale), expected, 0.03 * expected);
  }
  EXPECT_NEAR(noise_of_copies(0.5, 0.1, 1), 0.5, 0.015) << "replacement.sigma is the least";
  EXPECT_EQ(noise_of_copies(0.5, 0, 7), noise_of_copies(0.5, 1e-9, 7)) << "0: sigma alone";
}

TEST(Replacement, OneActiveCodeHasNoSpread) {
  ReplacementConfig config;
  config.of<CopyReplacementConfig>() = {.sigma = 0, .sigma_relative = 1};
  auto codebook = rows_numbered(3);
  replace_dead_codes(codebook, at::tensor({0, 4, 0}, at::kLong), config, 1);
  EXPECT_TRUE(at::equal(codebook, rows_numbered(3)[1].expand({3, 3})));
}

TEST(Replacement, ThresholdDecidesWhatIsDead) {
  auto codebook = rows_numbered(4);
  ReplacementConfig config;
  config.threshold = 3;
  EXPECT_EQ(replace_dead_codes(codebook, at::tensor({2, 3, 9, 0}, at::kLong), config, 1).numel(),
            2);
  config.threshold = 0;
  EXPECT_EQ(replace_dead_codes(codebook, at::tensor({0, 0, 9, 0}, at::kLong), config, 1).numel(),
            0);
}

TEST(Replacement, NothingToDoAndNothingToCopy) {
  auto codebook = rows_numbered(3);
  EXPECT_EQ(replace_dead_codes(codebook, at::ones({3}, at::kLong), {}, 1).numel(), 0);
  EXPECT_EQ(replace_dead_codes(codebook, at::zeros({3}, at::kLong), {}, 1).numel(), 0);
  EXPECT_TRUE(at::equal(codebook, rows_numbered(3)));
}

TEST(Replacement, TheSeedAloneDecides) {
  const auto usage = at::tensor({5, 0, 3, 0, 0, 1}, at::kLong);
  auto a = rows_numbered(6), b = rows_numbered(6), c = rows_numbered(6);
  replace_dead_codes(a, usage, {}, 1);
  torch::manual_seed(99);
  replace_dead_codes(b, usage, {}, 1);
  replace_dead_codes(c, usage, {}, 2);
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_FALSE(at::equal(a, c));
}

}  // namespace
}  // namespace nsvq
