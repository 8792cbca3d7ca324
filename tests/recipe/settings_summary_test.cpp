#include "nsvq/recipe/settings_summary.h"

#include <gtest/gtest.h>

#include "nsvq/data/loader/sampler.h"
#include "nsvq/recipe/tokenizer_config.h"
#include "tests/error_of.h"
#include "tests/expect_contains.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(SettingsSummary, ShowsWhatMattersAndWhatDiffers) {
  const auto usual = summarize_settings(TokenizerConfig());
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

std::string line_of(const std::string& key, const TokenizerConfig& config) {
  const auto text = summarize_settings(config) + "\n";
  const auto begin = text.find("\n  " + key);
  return begin == std::string::npos
             ? ""
             : text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST(SettingsSummary, MarksSettingsOfAnotherQuantizer) {
  const auto key = std::string("quantizer.features.file"), given = key + "=x.npy";
  auto config = load_config("", {given});
  EXPECT_EQ(line_of(key, config),
            "  quantizer.features.file: x.npy  (of vqgan_lc: nsvq makes no use of it)");
  config = load_config("", {given, "quantizer.type=vqgan_lc"});
  EXPECT_EQ(line_of(key, config), "  quantizer.features.file: x.npy");
  config = load_config("", {"quantizer.type=vq", "quantizer.alpha=9"});
  EXPECT_EQ(line_of("quantizer.alpha", config),
            "  quantizer.alpha: 9  (of simvq_ns, nsvq: vq makes no use of it)");
  config = load_config("", {"quantizer.type=simvq_ns", "quantizer.alpha=9"});
  EXPECT_EQ(line_of("quantizer.alpha", config), "  quantizer.alpha: 9");
  config = load_config("", {"quantizer.type=none", "optimizer.scale.quantizer=10"});
  EXPECT_EQ(line_of("optimizer.scale.quantizer", config),
            "  optimizer.scale.quantizer: 10  (quantizer.type is none)");
  config = load_config("", {"quantizer.type=none", "drift.ste_gap=true"});
  EXPECT_EQ(line_of("drift.ste_gap", config), "  drift.ste_gap: true  (quantizer.type is none)");
  config = load_config("", {"quantizer.tau=0.5"});
  EXPECT_EQ(line_of("quantizer.tau", config), "  quantizer.tau: 0.5");
}

TEST(SettingsSummary, MarksSettingsOfADiscriminatorThatIsNotThere) {
  const std::string width = "adversarial.width=7";
  EXPECT_EQ(line_of("adversarial.width", load_config("", {width, "adversarial.weight=0"})),
            "  adversarial.width: 7  (adversarial.weight is 0: there is no discriminator)");
  EXPECT_EQ(line_of("adversarial.width", load_config("", {width, "adversarial.weight=0.5"})),
            "  adversarial.width: 7");
  const auto weight = line_of("adversarial.weight", load_config("", {"adversarial.weight=0"}));
  EXPECT_EQ(weight.find('('), std::string::npos) << weight;
}

TEST(SettingsSummary, MarksSettingsOfAnotherPolicy) {
  const std::string threshold = "replacement.threshold=7", sigma = "replacement.sigma=0.25";
  const auto policy = [](const std::string& name) { return "replacement.policy=" + name; };
  EXPECT_EQ(line_of("replacement.threshold", load_config("", {threshold, policy("none")})),
            "  replacement.threshold: 7  (no codes are replaced)");
  EXPECT_EQ(line_of("replacement.threshold", load_config("", {threshold})),
            "  replacement.threshold: 7");
  EXPECT_EQ(line_of("replacement.sigma", load_config("", {sigma, policy("restart")})),
            "  replacement.sigma: 0.25  (of copy: restart makes no use of it)");
  EXPECT_EQ(line_of("replacement.sigma", load_config("", {sigma})), "  replacement.sigma: 0.25");
  EXPECT_EQ(line_of("replacement.policy", load_config("", {policy("none")})),
            "  replacement.policy: none");
  // Quantizers without a codebook make no use of it.
  EXPECT_EQ(line_of("replacement.sigma", load_config("", {sigma, "quantizer.type=fsq"})),
            "  replacement.sigma: 0.25  (no codes are replaced)");
}

TEST(SettingsSummary, SaysWhichSettingsAnotherOneLeavesUnused) {
  const std::vector<std::vector<std::string>> cases = {
      {"adversarial.schedule.warmup_steps", "5", "adversarial.weight=1", "shape is same"},
      {"adversarial.most_ratio", "2", "adversarial.weight=1", "adversarial.adaptive is false"},
      {"adversarial.r1_every", "4", "adversarial.weight=1", "adversarial.r1 is 0"},
      {"optimizer.schedule.final_share", "0.5", "seed=0", "shape is constant"},
      {"optimizer.scale.discriminator", "5", "adversarial.weight=0", "no discriminator"},
      {"quantizer.init_scale", "3", "quantizer.init=data", "quantizer.init is data"},
      {"schedule.patience", "77", "schedule.freeze=never", "schedule.freeze is never"},
      {"quantizer.kernel", "gaussian", "quantizer.alpha=0", "quantizer.alpha is 0"},
      {"quantizer.tau_of_nearest", "2", "quantizer.alpha=0", "quantizer.alpha is 0"},
      {"quantizer.alpha_relative", "true", "quantizer.type=ema", "of simvq_ns, nsvq: ema makes no"},
      {"quantizer.kernel", "gaussian", "quantizer.type=fsq", "of simvq_ns, nsvq: fsq makes no"},
      {"optimizer.eps_quantizer", "1e-12", "quantizer.type=none", "quantizer.type is none"},
      {"replacement.sigma_relative", "0.1", "replacement.policy=restart", "of copy: restart"},
      {"replacement.exempt_epochs", "3", "replacement.every_steps=5", "replacement.exempt_steps"},
      {"replacement.exempt_steps", "3", "replacement.every_steps=0", "replacement.exempt_epochs"}};
  for (const auto& one : cases) {
    const auto config = load_config("", {one[0] + "=" + one[1], one[2]});
    expect_contains(line_of(one[0], config), {one[0] + ": " + one[1] + "  (", one[3]});
  }
  for (const std::string penalty : {"quantizer.decorrelation", "quantizer.participation"}) {
    const auto config = load_config("", {penalty + "=2", "quantizer.type=none"});
    EXPECT_EQ(line_of(penalty, config), "  " + penalty + ": 2");
  }
}

/// Defaults that a quantizer brings are no differences.
TEST(SettingsSummary, KnowsTheDefaultsOfTheQuantizer) {
  for (const auto& kind : quantizer_kinds()) {
    TokenizerConfig config;
    config.quantizer.type = kind.name;
    option_table(config).load("");
    const auto text = summarize_settings(config);
    EXPECT_NE(text.find("\n  quantizer.type: " + kind.name), std::string::npos) << text;
    EXPECT_EQ(text.find("replacement."), std::string::npos) << text;
  }
}

TEST(Budgets, StayWithinSixtyFourBits) {
  const std::string most = std::to_string(INT64_MAX);
  for (const std::string key :
       {"train.epochs", "train.steps", "train.batch_size", "train.global_batch", "train.accumulate",
        "train.samples", "schedule.epoch_steps", "schedule.freeze_epoch", "drift.images"}) {
    for (const auto& value : {most, std::string("2305843009213693953")}) {
      TokenizerConfig config;
      expect_contains(error_of([&] { option_table(config).load("", {key + "=" + value}); }),
                      {key, value});
    }
  }
  Sampler sampler;
  sampler.images = 10;
  sampler.shuffle = false;
  sampler.batch_size = INT64_MAX;
  EXPECT_EQ(sampler.batches(), 1);
}

}  // namespace
}  // namespace nsvq
