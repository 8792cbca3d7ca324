// Every quantizer from every recipe that README recommends, by quantizer.type=NAME alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "nsvq/core/device.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

struct Case {
  std::string recipe, type;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* recipe : {"photos", "quickstart", "quickstart-vq", "photos-65k",
                             "photos-65k-short", "imagenet-128"}) {
    for (const auto& kind : quantizer_kinds()) {
      if (kind.untrained.empty()) all.push_back({recipe, kind.name});
    }
  }
  return all;
}

class RecommendedRecipes : public testing::TestWithParam<Case> {
 protected:
  std::string recipe_ = NSVQ_TESTS_DIR "/../../configs/" + GetParam().recipe + ".yaml";
  std::string type_ = "quantizer.type=" + GetParam().type;
  /// Small, so that it is fast: as many codes as make a square of patches, for fvq. Some recipes
  /// name a precision that only GPUs have.
  TokenizerConfig config_ =
      load_config(recipe_, {type_, "model.width=4", "quantizer.codes=64", "train.precision=fp32"});
};

TEST_P(RecommendedRecipes, MakeATokenizer) {
  EXPECT_EQ(config_.quantizer.type, GetParam().type);
  auto tokenizer = make_tokenizer(config_, at::kCPU);
  EXPECT_NO_THROW(make_replacement(config_.replacement, config_.quantizer, *tokenizer->quantizer));
  EXPECT_NO_THROW(check_freeze(config_.schedule, config_.quantizer));
  EXPECT_NO_THROW(check_dist(config_.dist, config_.quantizer, config_.adversarial));
  const auto images = at::zeros({1, 3, 16, 16});
  EXPECT_EQ(tokenizer->reconstruct(images).images.sizes(), images.sizes());
}

/// The recipe's own number of codes, without the networks.
TEST_P(RecommendedRecipes, FitTheirNumberOfCodes) {
  if (GetParam().type != "fvq") GTEST_SKIP() << "any number fits";
  const auto config = load_config(recipe_, {type_});
  EXPECT_NO_THROW(make_quantizer(config.quantizer, config.model.latent_dim));
}

TEST_P(RecommendedRecipes, BeginOrSayHowToMakeTheFile) {
  const auto quantizer = make_quantizer(config_.quantizer, config_.model.latent_dim);
  if (GetParam().type != "vqgan_lc") {
    EXPECT_NO_THROW(quantizer->begin());
    return;
  }
  expect_contains(error_of([&] { quantizer->begin(); }),
                  {"quantizer.features.file", "`nsvq weights get lpips-vgg`",
                   "`nsvq codebook features --net vgg --data IMAGES --codes 64 --out "});
}

INSTANTIATE_TEST_SUITE_P(Configs, RecommendedRecipes, testing::ValuesIn(cases()),
                         [](const auto& one) {
                           auto name = one.param.recipe + "_" + one.param.type;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace nsvq
