#include "nsvq/diffusion/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <tuple>

#include "nsvq/recipe/tokenizer_config.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

namespace fs = std::filesystem;

const fs::path kRecipes = fs::path(NSVQ_TESTS_DIR) / "../../configs/diffusion";

TEST(DiffusionConfig, EveryRecipeLoadsAndComesBack) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(kRecipes)) {
    SCOPED_TRACE(entry.path());
    const auto config = load_config<DiffusionConfig>(entry.path().string());
    const auto text = to_yaml(config);
    EXPECT_EQ(to_yaml(parse_config<DiffusionConfig>(text, "text")), text);
    EXPECT_TRUE(essential_differences(config, parse_config<DiffusionConfig>(text, "text")).empty());
    ++count;
  }
  EXPECT_EQ(count, 4);
}

/// The sections of a table, without those within them.
std::set<std::string> sections_of(const OptionTable& table) {
  std::set<std::string> sections;
  for (const auto& row : table.rows) {
    if (!row.section().empty()) sections.insert(row.key.substr(0, row.key.find('.')));
  }
  return sections;
}

TEST(RunKind, OwnSectionsAreThoseThatTheOtherTableLacks) {
  TokenizerConfig tokenizer;
  DiffusionConfig diffusion;
  const auto ours = sections_of(option_table(tokenizer)),
             theirs = sections_of(option_table(diffusion));
  for (const auto& [kind, own, other] : {std::tuple{RunKind::tokenizer, ours, theirs},
                                         std::tuple{RunKind::diffusion, theirs, ours}}) {
    std::set<std::string> alone;
    std::set_difference(own.begin(), own.end(), other.begin(), other.end(),
                        std::inserter(alone, alone.end()));
    const auto& listed = run_kind(kind).sections;
    EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), alone) << run_kind(kind).name;
  }
  EXPECT_EQ(kind_of_settings(parse_yaml(to_yaml(tokenizer), "a")), RunKind::tokenizer);
  EXPECT_EQ(kind_of_settings(parse_yaml(to_yaml(diffusion), "b")), RunKind::diffusion);
}

TEST(DiffusionConfig, PathsOfItsOwnLoseTheirDots) {
  DiffusionConfig config;
  config.tokenizer = "runs/../a";
  config.data.train = "./photos";
  const auto stored = with_absolute_paths(config);
  EXPECT_EQ(stored.tokenizer, (fs::current_path() / "a").string());
  EXPECT_EQ(stored.data.train, (fs::current_path() / "./photos").string());
  EXPECT_EQ(stored.tokens, "");
}

TEST(DiffusionConfig, ThePapersRecipeIsThePapers) {
  const auto config = load_config<DiffusionConfig>((kRecipes / "imagenet.yaml").string());
  EXPECT_EQ(config.unet.width, 256);
  EXPECT_EQ(config.unet.multipliers, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_NEAR(make_noise_schedule(config.noise).abar.back(), 4.036e-5, 1e-8);
  EXPECT_EQ(config.optimizer.lr, 1e-4);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.train.epochs, 100);
  EXPECT_EQ(config.train.global_batch, 128);
  EXPECT_EQ(config.labels(), 0);
  EXPECT_EQ(load_config<DiffusionConfig>((kRecipes / "classes.yaml").string()).labels(), 1001);
}

TEST(DiffusionConfig, SettingsThatContradictAreNamed) {
  const auto error = [](const std::vector<std::string>& overrides) {
    return error_of([&] { load_config<DiffusionConfig>("", overrides); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(error({"sample.steps=2000"}), "sample.steps");
  has(error({"sample.guidance=2"}), "diffusion.classes is 0");
  has(error({"sample.guidance=2", "diffusion.classes=5", "diffusion.label_dropout=0"}),
      "diffusion.label_dropout");
  has(error({"diffusion.tokens=tokens"}), "diffusion.latents must be codes");
  has(error({"diffusion.tokens=tokens", "diffusion.cached=latents"}), "name one of the two");
  has(error({"diffusion.beta_start=0.5", "diffusion.beta_end=0.1"}), "noise must grow");
  has(error({"unet.heads=7"}), "unet.heads");
  has(error({"diffusion.schedul=linear"}), "did you mean");
  has(error({"quantizer.codes=5"}), "quantizer.codes");
  has(error({"diffusion.weighting=min_snr"}), "min-snr");
  has(error({"diffusion.weighting=min-snr", "diffusion.min_snr_gamma=1e300"}), "min_snr_gamma");
}

TEST(DiffusionConfig, WhatMembersBringHasAnEffect) {
  DiffusionConfig here, there;
  there.objective.of<MinSnrConfig>().gamma = 4;
  there.sample.steps = 10;  // of sampling alone
  ASSERT_EQ(essential_differences(here, there).size(), 1u);
  EXPECT_NE(essential_differences(here, there)[0].find("diffusion.min_snr_gamma"),
            std::string::npos);
}

}  // namespace
}  // namespace nsvq
