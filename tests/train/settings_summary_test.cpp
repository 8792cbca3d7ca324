#include "nsvq/train/settings_summary.h"

#include <gtest/gtest.h>

#include "nsvq/tokenizer/recipe.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(SettingsSummary, ShowsWhatMattersAndWhatDiffers) {
  const auto usual = summarize_settings(Config());
  EXPECT_NE(usual.find("\n  optimizer.lr: "), std::string::npos) << usual;
  EXPECT_NE(usual.find("\n  quantizer.type: nsvq"), std::string::npos) << usual;
  EXPECT_EQ(usual.find("checkpoint."), std::string::npos) << usual;
  EXPECT_EQ(usual.find("quantizer.fsq"), std::string::npos) << usual;
  auto config = tiny_config();
  config.checkpoint.keep = 9;
  const auto text = summarize_settings(config);
  EXPECT_NE(text.find("\n  checkpoint.keep: 9"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  schedule.freeze: epoch"), std::string::npos) << text;
}

/// Defaults that a quantizer brings are no differences.
TEST(SettingsSummary, KnowsTheDefaultsOfTheQuantizer) {
  for (const auto& kind : quantizer_kinds()) {
    Config config;
    config.quantizer.type = kind.name;
    tokenizer_options(config).load("");
    const auto text = summarize_settings(config);
    EXPECT_NE(text.find("\n  quantizer.type: " + kind.name), std::string::npos) << text;
    EXPECT_EQ(text.find("replacement."), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace nsvq
