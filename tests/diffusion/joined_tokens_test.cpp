#include <gtest/gtest.h>

#include <filesystem>

#include "nsvq/diffusion/diffusion_batches.h"
#include "nsvq/diffusion/latent_space.h"

namespace nsvq {
namespace {

/// A folder that `nsvq tokens merge` of an earlier version joined (tests/tokens/stored/README.md).
TEST(JoinedTokens, TrainADiffusionModel) {
  const auto tests = std::filesystem::path(NSVQ_TESTS_DIR).parent_path();
  const LatentSpace space(
      load_tokenizer((tests / "tokenizer/stored/format-1-cvq/model.safetensors").string()), "codes",
      at::kCPU);
  const auto all =
      read_tokens_to_learn((tests / "tokens/stored/joined").string(), space, {4, 8, 8}, 16);
  EXPECT_EQ(all.data.sizes(), at::IntArrayRef({6, 8, 8}));
  EXPECT_EQ(all.keys.size(), 6u);
}

}  // namespace
}  // namespace nsvq
