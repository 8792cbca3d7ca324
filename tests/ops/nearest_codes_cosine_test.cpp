#include "nsvq/ops/code_search/nearest_codes_cosine.h"

#include <gtest/gtest.h>

#include "bench/cases.h"
#include "nsvq/core/device.h"
#include "nsvq/ops/code_search/code_search_reference.h"

namespace nsvq {
namespace {

void expect_nearest_by_angle_on(c10::Device device) {
  for (const auto& one : code_cases()) {
    if (one.use != CaseUse::test) continue;
    const auto [latents, codebook] = draw(one, 5, device);
    const auto [indices, distances] = nearest_codes_cosine(latents, codebook);
    const auto [exact, exact_distances] =
        nearest_codes_fp64(unit_vectors(latents).to(at::kCPU), unit_vectors(codebook).to(at::kCPU));
    EXPECT_TRUE(at::equal(indices.to(at::kCPU), exact)) << one.name << ", " << one.family;
    EXPECT_TRUE(at::allclose(distances.to(at::kCPU), exact_distances, 1e-6, 1e-12)) << one.name;
  }
}

TEST(Cosine, NearestByAngleOnTheCpu) { expect_nearest_by_angle_on(at::kCPU); }

TEST(Cosine, NearestByAngleOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  expect_nearest_by_angle_on(at::kCUDA);
}

TEST(Cosine, IsTheLargestCosine) {
  torch::manual_seed(1);
  const auto latents = at::randn({200, 8}) * 3, codebook = at::randn({77, 8}) * 0.2;
  const auto [indices, distances] = nearest_codes_cosine(latents, codebook);
  const auto wide = at::cosine_similarity(latents.to(at::kDouble).unsqueeze(1),
                                          codebook.to(at::kDouble).unsqueeze(0), 2);
  EXPECT_TRUE(at::equal(indices, wide.argmax(1)));
  EXPECT_TRUE(
      at::allclose(distances, (2 - 2 * std::get<0>(wide.max(1))).to(at::kFloat), 1e-5, 1e-6));
}

TEST(Cosine, LengthDoesNotMatterAndZeroIsARow) {
  const auto codebook = at::eye(3),
             latents = at::tensor({0.f, 9.f, 1.f, 0.f, 0.f, 0.f}).view({2, 3});
  const auto indices = std::get<0>(nearest_codes_cosine(latents, codebook));
  EXPECT_TRUE(at::equal(indices, at::tensor({1, 0}, at::kLong)));
  EXPECT_TRUE(at::equal(std::get<0>(nearest_codes_cosine(latents * 100, codebook)), indices));
}

}  // namespace
}  // namespace nsvq
