// Indices of many latents and codes against differences in fp64, family by family.

#include <gtest/gtest.h>

#include "bench/cases.h"
#include "nsvq/core/device.h"
#include "nsvq/ops/code_search/code_search.h"
#include "nsvq/ops/code_search/code_search_reference.h"
#include "tests/environment.h"
#include "tests/ops/backends.h"

namespace nsvq {
namespace {

TEST(Exactness, OfAHundredMillionPairsAFamilyOnTheGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << why_no_gpu();
  constexpr int64_t latents = 1600, codes = 65536;  // 1.05e8 pairs
  for (const int64_t dimension : {64, 128}) {
    for (const auto& family : code_families()) {
      const CodeCase one{family, latents, codes, dimension, family};
      const auto drawn = draw(one, /*seed=*/11, at::kCUDA);
      const auto expected = std::get<0>(nearest_codes_fp64(drawn.latents, drawn.codebook));
      for (const auto& backend : backends_on(at::kCUDA)) {
        const Environment path("NSVQ_GPU_PATH", backend.path);
        const auto found = std::get<0>(nearest_codes(drawn.latents, drawn.codebook));
        EXPECT_EQ(found.to(at::kCPU).ne(expected).sum().item<int64_t>(), 0)
            << backend.name << ", " << family << ", d = " << dimension;
      }
    }
  }
}

}  // namespace
}  // namespace nsvq
