// Codes that lie together by the thousand: more candidates than the lists of a kernel hold.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/cases.h"
#include "nsvq/core/device.h"
#include "nsvq/core/precision.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "tests/environment.h"
#include "tests/ops/backends.h"

namespace nsvq {
namespace {

constexpr double kTauOfTest = 0.35;

double relative_error(const torch::Tensor& loss, const torch::Tensor& right) {
  return ((loss.to(at::kDouble) - right).abs() / right.abs().clamp_min(1e-30)).item<double>();
}

/// Compares with fp64. Scaled up, products leave few digits of the distances, in the plain version
/// too: then the loss only has to be finite.
void expect_right(int64_t latents, int64_t codes, int64_t dimension, double scale,
                  c10::Device device, const std::string& family = "crowded copies") {
  const auto drawn = draw({family, latents, codes, dimension, family}, 5, device);
  const auto z = drawn.latents * scale, codebook = drawn.codebook * scale;
  const auto expected = std::get<0>(nearest_codes_fp64(z, codebook)).to(device);
  const auto plain = [&](at::ScalarType type) {
    return ns_loss_reference(z.to(type), codebook.to(type), expected, kTauOfTest);
  };
  for (const auto& backend : backends_on(device)) {
    const Environment path("NSVQ_GPU_PATH", backend.path);
    const auto found = ns_quantize(z, codebook, kTauOfTest);
    const auto what = fmt::format("{}, d = {}, scale {}", backend.name, dimension, scale);
    EXPECT_EQ(found.indices.ne(expected).sum().item<int64_t>(), 0) << what;
    EXPECT_EQ(std::get<0>(nearest_codes(z, codebook)).ne(expected).sum().item<int64_t>(), 0)
        << what;
    EXPECT_TRUE(at::isfinite(found.loss).all().item<bool>()) << what;
    if (scale > 1) continue;
    const auto right = plain(at::kDouble);
    EXPECT_LE(relative_error(found.loss, right),
              2 * relative_error(plain(at::kFloat), right) + 2e-4)
        << what;
  }
}

TEST(CrowdedCodes, SearchAndLoss) {
  for (const double scale : {1.0, 1000.0}) expect_right(64, 3000, 31, scale, at::kCPU);
  expect_right(64, 3000, 31, 1, at::kCPU, "crowded copies far away");
}

TEST(CrowdedCodes, SearchAndLossOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard as_bench_ops(Tf32Work::products, true);
  for (const int64_t dimension : {31, 128, 256}) {
    for (const double scale : {1.0, 30.0, 1000.0}) {
      expect_right(2600, 20000, dimension, scale, at::kCUDA);
    }
  }
}

/// Enough crowds far from their codes that codes are marked for them (crowds.h); with 400,000 codes
/// only for the first of them.
TEST(CrowdedCodes, FarAwayOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard as_bench_ops(Tf32Work::products, true);
  const std::string family = "crowded copies far away";
  for (const int64_t dimension : {31, 128, 256}) {
    expect_right(2600, 20000, dimension, 1, at::kCUDA, family);
    expect_right(2600, 65537, dimension, 1, at::kCUDA, family);
  }
  expect_right(2600, 400000, 16, 1, at::kCUDA, family);
  expect_right(48, 20000, 64, 1, at::kCUDA, family);  // more crowds than have marks
}

/// FarAwayOnTheGpu in a size for a sanitizer.
TEST(CrowdedCodes, FarAwayOfFewLatentsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard as_bench_ops(Tf32Work::products, true);
  expect_right(300, 20000, 64, 1, at::kCUDA, "crowded copies far away");
}

/// Few latents, so that a sanitizer takes a minute, and so many codes that a block's ring of tiles
/// goes round and its lists of candidates overflow.
TEST(CrowdedCodes, OfFewLatentsOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard as_bench_ops(Tf32Work::products, true);
  for (const int64_t dimension : {31, 128, 256}) expect_right(40, 80000, dimension, 1, at::kCUDA);
}

/// Values with few digits, so that codes of a crowd are equal by the thousand: the lowest index
/// wins.
TEST(CrowdedCodes, EqualCodesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const int64_t dimension : {40, 128}) {
    const std::string family = "crowded copies";
    const auto drawn = draw({family, 1500, 30000, dimension, family}, 6, at::kCUDA);
    const auto z = (drawn.latents * 64).round() / 64, codebook = (drawn.codebook * 64).round() / 64;
    const auto expected = std::get<0>(nearest_codes_fp64(z, codebook)).to(at::kCUDA);
    for (const auto& backend : backends_on(at::kCUDA)) {
      const Environment path("NSVQ_GPU_PATH", backend.path);
      const auto found = std::get<0>(nearest_codes(z, codebook));
      EXPECT_EQ(found.ne(expected).sum().item<int64_t>(), 0)
          << backend.name << ", d = " << dimension;
    }
  }
}

/// Codes of very different norms, over many tiles: tested by their own error bounds.
TEST(CrowdedCodes, UnevenTilesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const Tf32Guard as_bench_ops(Tf32Work::products, true);
  for (const int64_t dimension : {64, 128, 256}) {
    for (const char* family : {"few moved codes", "uneven norms"}) {
      expect_right(600, 65537, dimension, 1, at::kCUDA, family);
    }
  }
}

/// Crowds of which some latents are far from codes of which a few have moved: closed lists, uneven
/// tiles and marks at once.
TEST(CrowdedCodes, FarAwayInUnevenTilesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const std::string family = "crowded copies far away";
  for (const int64_t dimension : {64, 256}) {
    auto drawn = draw({family, 2600, 40000, dimension, family}, 9, at::kCUDA);
    drawn.codebook.slice(0, 0, 40000, 97).mul_(20);
    const auto expected =
        std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook)).to(at::kCUDA);
    const auto found = ns_quantize(drawn.latents, drawn.codebook, kTauOfTest);
    EXPECT_EQ(found.indices.ne(expected).sum().item<int64_t>(), 0) << dimension;
    EXPECT_TRUE(at::isfinite(found.loss).all().item<bool>()) << dimension;
  }
}

/// Values so near the end of fp32 that centring overflows and no error is bounded.
TEST(CrowdedCodes, LargestValuesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const std::string family = "random";
  for (const int64_t dimension : {64, 256}) {
    auto drawn = draw({family, 70, 9001, dimension, family}, 10, at::kCUDA);
    drawn.codebook.mul_(1e36);
    drawn.codebook.slice(0, 0, 9001, 50).abs_().clamp_(1e34, 1e36).add_(2e38);
    drawn.latents.slice(0, 0, 70, 2).fill_(-3.2e38);
    const auto expected =
        std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook)).to(at::kCUDA);
    for (const auto& backend : backends_on(at::kCUDA)) {
      const Environment path("NSVQ_GPU_PATH", backend.path);
      const auto found = ns_quantize(drawn.latents, drawn.codebook, kTauOfTest);
      EXPECT_EQ(found.indices.ne(expected).sum().item<int64_t>(), 0)
          << backend.name << ", d = " << dimension;
    }
  }
}

/// Results repeat, though the order in which latents join crowds does not, nor, where codes are
/// equal by the hundred, the number of hits.
TEST(CrowdedCodes, RepeatThemselvesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  for (const std::string family : {"crowded copies", "crowded copies far away", "duplicates"}) {
    const auto drawn = draw({family, 2600, 40000, 96, family}, 7, at::kCUDA);
    const auto codebook =
        family == "duplicates" ? drawn.codebook.slice(0, 0, 100).repeat({400, 1}) : drawn.codebook;
    const auto first = ns_quantize(drawn.latents, codebook, kTauOfTest);
    for (int i = 0; i < 5; ++i) {
      const auto again = ns_quantize(drawn.latents, codebook, kTauOfTest);
      EXPECT_TRUE(at::equal(again.indices, first.indices)) << family;
      EXPECT_TRUE(at::equal(again.loss, first.loss)) << family;
    }
  }
}

/// Temperatures at which the winner has all the weight, or all codes have equal weights.
TEST(CrowdedCodes, ExtremeTemperaturesOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const std::string family = "crowded copies";
  const auto drawn = draw({family, 600, 40000, 64, family}, 8, at::kCUDA);
  const auto expected = std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook));
  for (const double tau : {1e-7, 1e-3, 1e3}) {
    const auto found = ns_quantize(drawn.latents, drawn.codebook, tau);
    EXPECT_EQ(found.indices.to(at::kCPU).ne(expected).sum().item<int64_t>(), 0) << tau;
    EXPECT_TRUE(at::isfinite(found.loss).all().item<bool>()) << tau;
  }
}

}  // namespace
}  // namespace nsvq
