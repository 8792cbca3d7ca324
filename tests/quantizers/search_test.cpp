#include "nsvq/quantizers/search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nsvq/core/device.h"
#include "nsvq/ops/code_search/code_search.h"

namespace nsvq {
namespace {

/// Three latents, of which the second is not finite.
torch::Tensor latents_with_nan(c10::Device device) {
  auto latents = at::eye(3, device);
  latents[1][0] = NAN;
  return latents;
}

TEST(SearchPolicy, EveryPolicyThrowsOnACpu) {
  const auto latents = latents_with_nan(at::kCPU), codebook = at::eye(3);
  const auto indices = at::zeros({3}, at::kLong);
  for (const auto policy : {NonFinite::error, NonFinite::mark, NonFinite::ignore}) {
    EXPECT_THROW(nearest_indices(latents, codebook, {}, policy), c10::Error);
    EXPECT_THROW(with_policy(indices, latents, policy), c10::Error);
    EXPECT_TRUE(at::equal(nearest_indices(codebook, codebook, {}, policy), at::arange(3)));
    EXPECT_TRUE(at::equal(with_policy(indices, codebook, policy), indices));
  }
}

TEST(SearchPolicy, MarksOrIgnoresOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  const auto latents = latents_with_nan(at::kCUDA), codebook = at::eye(3, at::kCUDA);
  const auto search = [&](NonFinite policy) {
    return nearest_indices(latents, codebook, {}, policy).cpu();
  };
  EXPECT_THROW(search(NonFinite::error), c10::Error);
  const auto marked = at::tensor({0, -1, 2}, at::kLong);
  EXPECT_TRUE(at::equal(search(NonFinite::mark), marked));
  EXPECT_TRUE(at::equal(search(NonFinite::ignore), at::tensor({0, 0, 2}, at::kLong)));
  const auto given = at::tensor({0, 1, 2}, at::kLong).cuda();
  EXPECT_THROW(with_policy(given, latents, NonFinite::error), c10::Error);
  EXPECT_TRUE(at::equal(with_policy(given, latents, NonFinite::mark).cpu(), marked));
  EXPECT_TRUE(at::equal(with_policy(given, latents, NonFinite::ignore), given));
}

TEST(SearchPolicy, MarksAreFoundOnTheHost) {
  EXPECT_THROW(throw_if_marked(at::tensor({0, -1, 2}, at::kLong)), c10::Error);
  throw_if_marked(at::arange(3));
  throw_if_marked(at::empty({0}, at::kLong));
}

TEST(SearchReasons, SayWhyASlowerPathIsTaken) {
  QuantizerConfig config;
  EXPECT_EQ(reason_against_graphs(64, config), "");
  EXPECT_EQ(reason_against_graphs(70000, config),
            "the plain search synchronises with the host (d = 70000 is above 65536)");
  config.operators = "plain";
  EXPECT_EQ(reason_against_graphs(64, config),
            "the plain search synchronises with the host (quantizer.operators is plain)");
  EXPECT_FALSE(uses_streaming_search(64, config));
  EXPECT_EQ(fast_search_unavailable_reason(64, at::kCPU), "");
  if (gpu_count() == 0) return;
  EXPECT_NE(fast_search_unavailable_reason(4, at::kCUDA), "");
  EXPECT_NE(fast_search_unavailable_reason(300, at::kCUDA), "");
}

}  // namespace
}  // namespace nsvq
