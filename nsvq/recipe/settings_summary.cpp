#include "nsvq/recipe/settings_summary.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "nsvq/quantizers/quantizer.h"
#include "nsvq/quantizers/replacement/replacement.h"
#include "nsvq/recipe/tokenizer_config.h"

namespace nsvq {

namespace {

const std::set<std::string>& always_shown() {
  static const std::set<std::string> keys = {"seed",
                                             "data.train",
                                             "data.val",
                                             "data.size",
                                             "model.width",
                                             "model.multipliers",
                                             "model.latent_dim",
                                             "quantizer.type",
                                             "quantizer.codes",
                                             "optimizer.lr",
                                             "train.epochs",
                                             "train.batch_size"};
  return keys;
}

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string kinds_with_ns_loss() {
  std::vector<std::string> names;
  for (const auto& kind : quantizer_kinds()) {
    if (kind.ns_loss) names.push_back(kind.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Why a setting of the NS loss has no effect; empty if it has one. quantizer.tau is not among
/// them: the meter `neighbours` of any quantizer uses it.
std::string unused_of_ns_loss(const std::string& key, const QuantizerConfig& quantizer) {
  if (!is_one_of(key, {"quantizer.alpha", "quantizer.alpha_relative", "quantizer.tau_of_nearest",
                       "quantizer.kernel"})) {
    return "";
  }
  if (!quantizer_kind(quantizer.type).ns_loss) {
    return fmt::format("of {}: {} makes no use of it", kinds_with_ns_loss(), quantizer.type);
  }
  const bool off = quantizer.alpha == 0 && key != "quantizer.alpha";
  return off ? "quantizer.alpha is 0: there is no NS loss" : "";
}

/// Why a setting has no effect, where that depends on the value of another; empty if it has one.
std::string unused_by_choice(const std::string& key, const TokenizerConfig& config) {
  const auto& optimizer = config.optimizer;
  if (key == "optimizer.scale.discriminator" && config.adversarial.weight == 0) {
    return "adversarial.weight is 0: there is no discriminator";
  }
  if (is_one_of(key, {"optimizer.schedule.steps", "optimizer.schedule.final_share"}) &&
      optimizer.schedule.shape == "constant") {
    return "optimizer.schedule.shape is constant";
  }
  if (key.starts_with("adversarial.schedule.") && key != "adversarial.schedule.shape") {
    const auto& shape = optimizer.discriminator_schedule.shape;
    if (shape == "same") return "adversarial.schedule.shape is same: as the generator's";
    if (shape == "constant" && key != "adversarial.schedule.warmup_steps") {
      return "adversarial.schedule.shape is constant";
    }
  }
  if (is_one_of(key, {"adversarial.least_ratio", "adversarial.most_ratio"}) &&
      !config.adversarial.adaptive) {
    return "adversarial.adaptive is false";
  }
  if (key == "adversarial.r1_every" && config.adversarial.r1 == 0) return "adversarial.r1 is 0";
  const auto& type = config.quantizer.type;
  const bool of_codes =
      key.starts_with("quantizer.") &&
      !is_one_of(key, {"quantizer.type", "quantizer.decorrelation", "quantizer.participation"});
  const bool with_codes_only =
      is_one_of(key, {"optimizer.scale.quantizer", "optimizer.eps_quantizer", "drift.ste_gap"});
  if (type == "none" && (of_codes || with_codes_only)) {
    return "quantizer.type is none";
  }
  if (key == "quantizer.codes" && !quantizer_kind(type).codes_are.empty()) {
    return fmt::format("{} has {}", type, quantizer_kind(type).codes_are);
  }
  if (const auto reason = unused_of_ns_loss(key, config.quantizer); !reason.empty()) return reason;
  if (key == "quantizer.init_scale" && config.quantizer.init != "normal") {
    return fmt::format("quantizer.init is {}", config.quantizer.init);
  }
  if (is_one_of(key, {"schedule.patience", "schedule.smoothing", "schedule.commitment",
                      "schedule.earliest_epoch", "schedule.latest_epoch"}) &&
      config.schedule.freeze != "plateau") {
    return fmt::format("schedule.freeze is {}", config.schedule.freeze);
  }
  const bool by_steps = config.replacement.every_steps > 0;
  if (key == "replacement.exempt_epochs" && by_steps) {
    return "replacement.every_steps counts in steps: replacement.exempt_steps";
  }
  if (key == "replacement.exempt_steps" && !by_steps) {
    return "replacement.every_steps is 0: replacement.exempt_epochs";
  }
  return "";
}

/// Why a setting has no effect; empty if it has one.
std::string unused_reason(const std::string& key, const TokenizerConfig& config) {
  const auto& type = config.quantizer.type;
  if (const auto others = other_kinds_of(key, type); !others.empty()) {
    return fmt::format("of {}: {} makes no use of it", others, type);
  }
  const bool of_adversary = key.starts_with("adversarial.") && key != "adversarial.weight";
  if (of_adversary && config.adversarial.weight == 0) {
    return "adversarial.weight is 0: there is no discriminator";
  }
  if (const auto reason = unused_by_choice(key, config); !reason.empty()) return reason;
  if (!key.starts_with("replacement.") || key == "replacement.policy") return "";
  const auto policy = replacement_policy(config.replacement, config.quantizer);
  if (policy == "none") return "no codes are replaced";
  const auto other = other_policy_of(key, policy);
  return other.empty() ? "" : fmt::format("of {}: {} makes no use of it", other, policy);
}

}  // namespace

std::string summarize_settings(const TokenizerConfig& config) {
  TokenizerConfig copy = config, defaults;  // a table binds to what it could change
  // Defaults depend on these.
  defaults.quantizer.type = config.quantizer.type;
  defaults.train.init_from = config.train.init_from;
  const auto usual = option_table(defaults);
  usual.load("");
  auto shown = always_shown();
  if (!config.train.init_from.empty()) shown.insert("train.init_from");
  const auto note = [&](const std::string& key) -> std::string {
    const auto reason = unused_reason(key, config);
    return reason.empty() ? "" : fmt::format("  ({})", reason);
  };
  return summarize_settings(option_table(copy), usual, shown, note);
}

std::string summarize_settings(const OptionTable& table, const OptionTable& usual,
                               const std::set<std::string>& always_shown,
                               const std::function<std::string(const std::string&)>& note) {
  std::string text =
      "settings     those that matter most or differ from the defaults; config.yaml has all";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    const bool differs = row.value() != usual.rows[i].value();
    if (differs || always_shown.contains(row.key)) {
      text += fmt::format("\n  {}: {}{}", row.key, row.value(), note ? note(row.key) : "");
    }
  }
  return text;
}

}  // namespace nsvq
