// quantizer.type=NAME with recipes that were written for another quantizer.

#include <gtest/gtest.h>

#include "nsvq/core/temporary_folder.h"
#include "nsvq/io/files/file.h"
#include "nsvq/quantizers/members.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"

namespace nsvq {
namespace {

const std::string kPhotos = NSVQ_TESTS_DIR "/../../configs/photos.yaml";
const std::string kImagenet = NSVQ_TESTS_DIR "/../../configs/imagenet-128.yaml";

struct Loaded {
  TokenizerConfig config;
  std::string said;
};

Loaded load(const std::string& recipe, const std::vector<std::string>& overrides) {
  testing::internal::CaptureStderr();
  auto config = load_config(recipe, overrides);
  return {config, testing::internal::GetCapturedStderr()};
}

std::string refusal(const TokenizerConfig& config) {
  return error_of([&] { make_quantizer(config.quantizer, config.model.latent_dim); });
}

TEST(UnusableSettings, OfARecipeGiveWayWithALine) {
  const auto [fsq, said] = load(kPhotos, {"quantizer.type=fsq"});
  EXPECT_FALSE(fsq.quantizer.rotation);
  EXPECT_EQ(fsq.model.latent_dim, 6);
  expect_contains(said, {"quickstart.yaml:", ": quantizer.rotation=true is left out: fsq has no ",
                         ": model.latent_dim=16 is left out: fsq takes 6, a channel for each of "
                         "quantizer.fsq.levels\n"});
  EXPECT_EQ(load(kPhotos, {"quantizer.type=fsq", "quantizer.fsq.levels=[8,5,5,5]"})
                .config.model.latent_dim,
            4);
  const auto lfq = load(kImagenet, {"quantizer.type=lfq"});
  EXPECT_EQ(lfq.config.model.latent_dim, 16);
  expect_contains(lfq.said, {": model.latent_dim=128 is left out: lfq takes 16, a channel for each "
                             "of quantizer.lfq.bits\n"});
  const auto none = load(kImagenet, {"quantizer.type=none"});
  EXPECT_EQ(none.config.schedule.freeze, "never");
  expect_contains(none.said, {": schedule.freeze=plateau is left out: none has no commitment"});
  EXPECT_EQ(load(kPhotos, {"quantizer.type=vq"}).said, "");
  EXPECT_EQ(load(kPhotos, {}).said, "");
}

TEST(UnusableSettings, OfTheCommandLineAreRefusedWithWhatToType) {
  const auto of = [](const std::vector<std::string>& overrides) {
    return refusal(load(kPhotos, overrides).config);
  };
  expect_contains(
      of({"quantizer.type=fsq", "quantizer.rotation=true"}),
      {"quantizer.rotation: fsq has no nearest code", "; set quantizer.rotation=false"});
  expect_contains(of({"quantizer.type=fsq", "model.latent_dim=8"}), {"; set model.latent_dim=6"});
  expect_contains(of({"quantizer.type=lfq", "model.latent_dim=8"}), {"; set model.latent_dim=16"});
}

TEST(UnusableSettings, NormalisedCodesGiveWayToQuantizersWithoutThem) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "a.yaml").string();
  write_text(recipe, "quantizer: {type: vq, normalise: true}\nmodel.latent_dim: 8\n");
  EXPECT_TRUE(load(recipe, {"quantizer.type=nsvq"}).config.quantizer.normalise);
  const auto ibq = load(recipe, {"quantizer.type=ibq"});
  EXPECT_FALSE(ibq.config.quantizer.normalise);
  expect_contains(ibq.said, {":1: quantizer.normalise=true is left out: ibq chooses by the"});
  expect_contains(refusal(load(recipe, {"quantizer.type=ibq", "quantizer.normalise=true"}).config),
                  {"quantizer.normalise: ibq chooses by the", "; set quantizer.normalise=false"});
}

TEST(UnusableSettings, OfTheUsersFileBesideItsTypeAreRefused) {
  const TemporaryFolder folder;
  const auto mine = (folder / "mine.yaml").string();
  write_text(mine, "base: " + kPhotos + "\nquantizer: {type: fsq, rotation: true}\n");
  const auto both = load(mine, {});
  EXPECT_EQ(both.config.model.latent_dim, 6) << "of the base";
  expect_contains(refusal(both.config), {"; set quantizer.rotation=false"});
  write_text(mine, "base: " + kPhotos + "\nquantizer: {type: fsq}\n");
  EXPECT_FALSE(load(mine, {}).config.quantizer.rotation);
}

TEST(UnusableSettings, LessUsualOnesGiveWayToo) {
  const TemporaryFolder folder;
  const auto recipe = (folder / "a.yaml").string();
  write_text(recipe,
             "replacement.policy: copy\nschedule: {refit: kmeans, freeze: epoch, freeze_epoch: 2}\n"
             "quantizer.type: nsvq\n");
  const auto simvq = load(recipe, {"quantizer.type=simvq"});
  EXPECT_EQ(simvq.config.replacement.policy, "auto");
  EXPECT_EQ(simvq.config.schedule.refit, "none");
  EXPECT_EQ(load(recipe, {"quantizer.type=vq"}).config.replacement.policy, "copy");
  write_text(recipe, "quantizer.type: lfq\nmodel.latent_dim: 16\ndist.entropy: all\n");
  EXPECT_EQ(load(recipe, {}).config.dist.entropy, "all");
  EXPECT_EQ(load(recipe, {"quantizer.type=vq"}).config.dist.entropy, "own");
}

TEST(UnusableSettings, WhatIsStoredIsConsistentAndReadsBack) {
  for (const auto& kind : quantizer_kinds()) {
    const auto config = load(kPhotos, {"quantizer.type=" + kind.name}).config;
    EXPECT_TRUE(unusable_settings(config).empty()) << kind.name;
    const auto stored = to_yaml(config);
    testing::internal::CaptureStderr();
    EXPECT_EQ(to_yaml(parse_config(stored, "stored")), stored) << kind.name;
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  }
}

}  // namespace
}  // namespace nsvq
