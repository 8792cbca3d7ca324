#include "nsvq/train/vq/alarm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {
namespace {

using Names = std::vector<std::string>;

/// Whether the table of settings has this key.
bool is_setting(const std::string& key) {
  static const std::string reference = "\n" + config_reference();
  return reference.find("\n" + key + " ") != std::string::npos;
}

/// What a text has in the form of a key, section.name.
std::vector<std::string> keys_in(const std::string& text) {
  static const std::regex form(R"([a-z]\w*(\.[a-z]\w*)+)");
  std::vector<std::string> keys;
  for (std::sregex_iterator at(text.begin(), text.end(), form), end; at != end; ++at) {
    keys.push_back(at->str());
  }
  return keys;
}

TokenizerConfig config_with(const AlarmConfig& alarm) {
  TokenizerConfig config;
  config.alarm = alarm;
  return config;
}

/// Names of the signs after the last epoch, each with a text that names settings that exist.
Names names(const std::vector<HealthSigns>& history, const AlarmConfig& alarm = {},
            int64_t codes = 1000) {
  Names names;
  for (const auto& sign : alarms(config_with(alarm), history, codes)) {
    names.push_back(sign.name);
    EXPECT_FALSE(keys_in(sign.text).empty()) << sign.text;
    for (const auto& key : keys_in(sign.text)) EXPECT_TRUE(is_setting(key)) << key;
  }
  return names;
}

/// Defaults and some settings.
TokenizerConfig config_of(const std::vector<std::string>& settings) {
  TokenizerConfig config;
  option_table(config).load("", settings);
  return config;
}

std::vector<HealthSigns> utilisation(const std::vector<double>& values) {
  std::vector<HealthSigns> history;
  for (const double value : values) history.push_back({value, NAN, NAN});
  return history;
}

std::vector<HealthSigns> norm(const std::vector<double>& values) {
  std::vector<HealthSigns> history;
  for (const double value : values) history.push_back({NAN, value, NAN});
  return history;
}

std::vector<HealthSigns> neighbours(const std::vector<double>& values) {
  std::vector<HealthSigns> history;
  for (const double value : values) history.push_back({NAN, NAN, value});
  return history;
}

TEST(Alarm, KeysInATextAreFound) {
  EXPECT_EQ(keys_in("Of 2.5 %. Raise quantizer.tau, or loss.perceptual_net: vgg (model.width)."),
            (Names{"quantizer.tau", "loss.perceptual_net", "model.width"}));
  EXPECT_TRUE(is_setting("quantizer.tau"));
  EXPECT_FALSE(is_setting("quantizer.ta"));
  EXPECT_FALSE(is_setting("tau"));
}

TEST(Alarm, AHealthyRunRaisesNone) {
  EXPECT_EQ(names({}), Names{});
  EXPECT_EQ(names({{0.3, 6, 40}, {0.5, 7, 30}, {0.8, 8, 20}, {0.9, 9, 10}, {0.85, 9, 8}}), Names{});
}

TEST(Alarm, UtilisationThatStaysLow) {
  EXPECT_EQ(names(utilisation({0.01, 0.02})), Names{});  // Fewer epochs than it must last.
  EXPECT_EQ(names(utilisation({0.01, 0.02, 0.03})), Names{"unused_codes"});
  EXPECT_EQ(names(utilisation({0.01, 0.02, 0.1})), Names{});  // Not below the bound.
  EXPECT_EQ(names(utilisation({0.01, 0.2, 0.02, 0.03})), Names{});
  EXPECT_EQ(names(utilisation({0.5, 0.2, 0.02, 0.03, 0.01})), Names{"unused_codes"});
  EXPECT_EQ(names(utilisation({0.01, 0.02, 0.03, 0.2})), Names{});  // It holds no longer.
}

TEST(Alarm, UtilisationThatFalls) {
  EXPECT_EQ(names(utilisation({0.9, 0.8, 0.6, 0.4})), Names{"losing_codes"});
  EXPECT_EQ(names(utilisation({0.9, 0.8, 0.6, 0.46})), Names{});  // More than half is left.
  EXPECT_EQ(names(utilisation({0.9, 0.3, 0.31, 0.2})), Names{});  // It rose in between.
  EXPECT_EQ(names(utilisation({0.9, 0.4, 0.4, 0.3})), Names{});   // It stood still in between.
  EXPECT_EQ(names(utilisation({0.8, 0.5, 0.3})), Names{});        // It fell twice.
  EXPECT_EQ(names(utilisation({0.9, 0.3, 0.4, 0.35, 0.34, 0.33})), Names{"losing_codes"});
}

TEST(Alarm, NormsThatRunAway) {
  EXPECT_EQ(names(norm({6, 61, 62, 63})), Names{"latent_norm"});
  EXPECT_EQ(names(norm({6, 60, 62, 63})), Names{});
  EXPECT_EQ(names(norm({6, 59, 62, 63, 64})), Names{"latent_norm"});
  EXPECT_EQ(names(norm({NAN, 6, 61, 62, 63})), Names{"latent_norm"});  // The first measured counts.
  EXPECT_EQ(names(norm({0, 61, 62, 63})), Names{});                    // Ten times nothing.
  EXPECT_EQ(names(norm({6, INFINITY, INFINITY, INFINITY})), Names{"latent_norm"});
}

TEST(Alarm, NeighboursOneHotOrUniform) {
  EXPECT_EQ(names(neighbours({30, 1.04, 1, 1.01})), Names{"one_hot"});
  EXPECT_EQ(names(neighbours({1.04, 1.05, 1.01})), Names{});
  EXPECT_EQ(names(neighbours({501, 900, 1000})), Names{"uniform"});
  EXPECT_EQ(names(neighbours({501, 500, 1000})), Names{});
  for (const double value : {1.0, 1.02, 2.0}) {
    EXPECT_EQ(names(neighbours({value, value, value}), {}, 2), Names{});
  }
  EXPECT_EQ(names(neighbours({1, 1, 1}), {}, 1), Names{});
}

TEST(Alarm, NaNNeverRaises) {
  EXPECT_EQ(names({{NAN, NAN, NAN}, {NAN, NAN, NAN}, {NAN, NAN, NAN}, {NAN, NAN, NAN}}), Names{});
  EXPECT_EQ(names({{0.01, 6, 1}, {0.01, 90, 1}, {NAN, NAN, NAN}, {0.01, 90, 1}}), Names{});
  EXPECT_EQ(names(utilisation({0.9, NAN, 0.3, 0.2})), Names{});
}

TEST(Alarm, SignsComeTogether) {
  const HealthSigns start{0.5, 6, 30}, bad{0.02, 90, 1};
  EXPECT_EQ(names({start, bad, bad, bad}), (Names{"unused_codes", "latent_norm", "one_hot"}));
}

TEST(Alarm, TheConfigurationDecides) {
  const auto low = utilisation({0.01, 0.01, 0.01});
  EXPECT_EQ(names(low, {.epochs = 0}), Names{});
  EXPECT_EQ(names(low, {.epochs = 4}), Names{});
  EXPECT_EQ(names(utilisation({0.5, 0.01}), {.epochs = 1}), Names{"unused_codes"});
  EXPECT_EQ(names(low, {.utilisation = 0}), Names{});
  EXPECT_EQ(names(norm({1, 3, 3, 3}), {.norm_growth = 2}), Names{"latent_norm"});
}

TEST(Alarm, TheTextGivesFiguresAndCure) {
  auto config = config_of({"quantizer.type=vq", "loss.perceptual=1"});
  EXPECT_EQ(alarms(config, utilisation({0.02, 0.015, 0.025}), 1000).at(0).text,
            "Fewer than 10 % of the codes were used in each of the last 3 epochs (in the last one "
            "2.5 %): the codebook has collapsed, or the codes do not cover the latents yet. Usual "
            "remedies: quantizer.type: nsvq; replacement.policy: copy; a smaller loss.perceptual, "
            "which drives the latents away from the codes; fewer codes (quantizer.codes).");
  config.alarm.epochs = 1;
  const auto text = alarms(config, norm({6.1, 75.2}), 1000).at(0).text;
  for (const auto* part : {"10 times", "(6.1)", "the last epoch", "75.2", "loss.perceptual"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
}

TEST(Alarm, TheTextOfWindowsNamesTheirSteps) {
  const auto text = [](int64_t epochs) {
    return alarms(config_with({.epochs = epochs}), utilisation({0.02, 0.02, 0.02}), 1000, 20)
        .at(0)
        .text;
  };
  EXPECT_NE(text(3).find(" used in each of the last 3 windows of 20 steps (in "), std::string::npos)
      << text(3);
  EXPECT_NE(text(1).find(" used in the last window of 20 steps (in "), std::string::npos)
      << text(1);
}

TEST(Alarm, WindowsAreOfLongEpochsAndOfShortRuns) {
  const AlarmConfig alarm;
  ASSERT_EQ(alarm.epochs, 3);
  EXPECT_EQ(window_steps(alarm, 128, 1024), 0) << "eight epochs: nothing but epochs";
  EXPECT_EQ(window_steps(alarm, 128, 3 * 128), 0);
  EXPECT_EQ(window_steps(alarm, 128, 60), 20) << "three windows";
  EXPECT_EQ(window_steps(alarm, 100, 200), 66) << "two epochs";
  EXPECT_EQ(window_steps(alarm, 5004, 70 * 5004), 1000);
  EXPECT_EQ(window_steps(alarm, 1000, 70000), 0) << "no longer than a window";
  EXPECT_EQ(window_steps(alarm, 128, 12), kLeastWindow) << "too short for three";
  EXPECT_EQ(window_steps(alarm, 3, 6), 0);
  EXPECT_EQ(window_steps({.epochs = 0}, 5004, 60), 0);
  EXPECT_EQ(window_steps({.steps = 0}, 5004, 60), 0);
  EXPECT_EQ(window_steps({.steps = 2}, 3, 18), 2) << "as it was set";
}

/// What is advised against a sign in a run with these settings.
std::string advice(const std::string& sign, const std::vector<std::string>& settings) {
  return remedies(sign, config_of(settings));
}

TEST(Remedies, AreOfWhatTheRunHas) {
  EXPECT_EQ(advice("unused_codes", {}), "a larger quantizer.alpha; fewer codes (quantizer.codes)");
  EXPECT_EQ(advice("unused_codes", {"replacement.policy=none", "loss.perceptual=0.1"}),
            "a larger quantizer.alpha; replacement.policy: copy; a smaller loss.perceptual, which "
            "drives the latents away from the codes; fewer codes (quantizer.codes)");
  EXPECT_EQ(advice("unused_codes", {"quantizer.type=vq", "replacement.policy=copy"}),
            "quantizer.type: nsvq; fewer codes (quantizer.codes)");
  EXPECT_EQ(advice("unused_codes", {"quantizer.type=fsq", "model.latent_dim=6"}),
            "quantizer.type: nsvq; fewer codes (quantizer.fsq.levels)");
  EXPECT_EQ(advice("diverging", {}), "a new run with a lower optimizer.lr");
  EXPECT_EQ(advice("diverging", {"adversarial.weight=0.1"}),
            "a new run with a lower optimizer.lr; a smaller adversarial.weight or a later "
            "adversarial.start_step");
  EXPECT_EQ(advice("latent_norm", {}), "a larger quantizer.beta; a lower optimizer.lr");
  EXPECT_EQ(advice("latent_norm", {"quantizer.type=gumbel"}), "a lower optimizer.lr");
  EXPECT_EQ(advice("one_hot", {}), "a larger quantizer.tau");
  EXPECT_EQ(advice("one_hot", {"quantizer.tau_of_nearest=2"}), "a larger quantizer.tau_of_nearest");
  EXPECT_EQ(advice("uniform", {"quantizer.init=uniform"}),
            "a smaller quantizer.tau; quantizer.init: gaussian or data");
}

TEST(Remedies, FollowFromTheRowOfTheQuantizer) {
  for (const auto& kind : quantizer_kinds()) {
    SCOPED_TRACE(kind.name);
    const auto has = [&](const std::string& sign, const std::string& text) {
      TokenizerConfig config;
      config.quantizer.type = kind.name;
      return remedies(sign, config).find(text) != std::string::npos;
    };
    EXPECT_EQ(has("unused_codes", "quantizer.alpha"), kind.ns_loss);
    EXPECT_EQ(has("one_hot", "quantizer.tau"), kind.ns_loss);
    EXPECT_EQ(has("latent_norm", "quantizer.beta"), kind.weighs_commitment);
    EXPECT_EQ(has("unused_codes", "(quantizer.codes)"), kind.codes_are.empty());
  }
}

TEST(Remedies, AgainstAnEncoderThatLeavesItsCodes) {
  EXPECT_EQ(advice("losing_codes", {}),
            "an encoder that freezes earlier (schedule.latest_epoch); a lower optimizer.lr");
  EXPECT_EQ(advice("losing_codes", {"schedule.freeze=epoch", "schedule.freeze_epoch=3"}),
            "an encoder that freezes earlier (schedule.freeze_epoch); a lower optimizer.lr");
  EXPECT_EQ(advice("losing_codes", {"schedule.freeze=never"}),
            "an encoder that freezes (schedule.freeze); a lower optimizer.lr");
  EXPECT_EQ(advice("losing_codes", {"schedule.phases=[stage1]"}),
            "a phase with a frozen encoder (schedule.phases); a lower optimizer.lr");
}

TEST(Remedies, OfEveryQuantizerNameSettingsThatExist) {
  for (const auto& kind : quantizer_kinds()) {
    TokenizerConfig config;
    config.quantizer.type = kind.name;
    config.adversarial.weight = config.loss.of<PerceptualLossConfig>().weight = 1;
    config.replacement.policy = "none";
    for (const auto* sign : {"diverging", "unused_codes", "losing_codes", "latent_norm"}) {
      const auto text = remedies(sign, config);
      EXPECT_FALSE(keys_in(text).empty()) << kind.name << " " << sign;
      for (const auto& key : keys_in(text)) EXPECT_TRUE(is_setting(key)) << kind.name << " " << key;
      EXPECT_EQ(text.find("replacement.policy") != std::string::npos,
                kind.codebook &&
                    (sign == std::string("unused_codes") || sign == std::string("losing_codes")))
          << kind.name << " " << sign;
    }
  }
}

TEST(Alarm, TrainingThatDivergesIsNamedAlone) {
  const HealthSigns start{0.9, 1, 30, 0.3}, bad{0.01, 100, 1, 1.2}, worse{0.01, 100, 1, 40};
  EXPECT_EQ(names({start, bad, worse}), Names{});
  EXPECT_EQ(names({start, bad, worse, bad}), Names{"diverging"});
  EXPECT_EQ(names({start, bad, worse, start, bad}), Names{});
  EXPECT_EQ(names({bad, bad, bad}), Names{"diverging"}) << "from its start";
}

}  // namespace
}  // namespace nsvq
