#include "nsvq/recipe/tokenizer_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/quantizer.h"

namespace nsvq {

namespace {

/// Whether a key is one of `names`, or in a section among them, such as "model.".
bool is_named(const std::string& key, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view one) {
    return one.ends_with('.') ? key.starts_with(one) : key == one;
  });
}

/// Throws UserError where the quantizer is to be that of a model that nothing names.
void check_start(const TokenizerConfig& config) {
  if (config.quantizer.init != "model" || !config.train.init_from.empty()) return;
  throw UserError(
      "quantizer.init is model, but train.init_from names no model; set it, or another "
      "quantizer.init");
}

void check_sizes(const DataConfig& data, const ModelConfig& model) {
  if (data.size % model.stride() == 0) return;
  throw UserError(
      "data.size {} is not a multiple of {}, the stride of {} levels (model.multipliers)",
      data.size, model.stride(), model.multipliers.size());
}

/// Why model.latent_dim has to change; empty if it fits.
std::string wrong_latent_dim(const QuantizerKind& kind, const TokenizerConfig& config) {
  if (!kind.latent_dim) return "";
  const int64_t needed = kind.latent_dim(config.quantizer);
  if (needed == config.model.latent_dim) return "";
  return fmt::format("{} takes {}, a channel for each of {}", kind.name, needed, kind.channels);
}

}  // namespace

OptionTable option_table(TokenizerConfig& config) {
  OptionTable table;
  table.rows = joined({run_options(config), data_options(config.data), model_options(config.model),
                       quantizer_options(config.quantizer), loss_options(config.loss),
                       adversarial_options(config.adversarial),
                       lr_schedule_options("adversarial.schedule", "discriminator",
                                           config.optimizer.discriminator_schedule,
                                           {"same", "constant", "linear", "cosine"}),
                       optimizer_options(config.optimizer), replacement_options(config.replacement),
                       schedule_options(config.schedule), train_options(config.train),
                       dist_options(config.dist), drift_options(config.drift),
                       alarm_options(config.alarm), checkpoint_options(config.checkpoint)});
  table.other_sections = sections_of_other_kinds(config.kind);
  table.dependent_defaults = [&config] {
    auto defaults = quantizer_kind(config.quantizer.type).defaults;
    std::ranges::copy(data_defaults(config.data), std::back_inserter(defaults));
    std::ranges::copy(adversarial_defaults(config.adversarial, config.data.size),
                      std::back_inserter(defaults));
    if (!config.train.init_from.empty()) {
      const bool kept = begins_with_decoder(config.schedule);
      defaults.emplace_back(kept ? "quantizer.init=model" : "quantizer.init=kmeans");
    }
    return defaults;
  };
  table.chooser = "quantizer.type";
  table.unusable = [&config] { return unusable_settings(config); };
  table.check = [&config] { check_settings(config); };
  table.other_words = words_of_other_programs();
  table.help = "`nsvq config --reference` lists all keys";
  return table;
}

std::vector<Unusable> unusable_settings(const TokenizerConfig& config) {
  const auto& kind = quantizer_kind(config.quantizer.type);
  std::vector<Unusable> unusable;
  if (config.quantizer.rotation && !kind.rotates) {
    unusable.push_back(
        {"quantizer.rotation", "false", kind.name + " has no nearest code to rotate a latent to"});
  }
  if (config.quantizer.normalise && !kind.refuses_norms.empty()) {
    unusable.push_back({"quantizer.normalise", "false", kind.name + " " + kind.refuses_norms});
  }
  if (const auto reason = wrong_latent_dim(kind, config); !reason.empty()) {
    unusable.push_back(
        {"model.latent_dim", std::to_string(kind.latent_dim(config.quantizer)), reason});
  }
  const auto& policy = config.replacement.policy;
  if (!kind.codebook && policy != "auto" && policy != "none") {
    unusable.push_back(
        {"replacement.policy", "auto", kind.name + " has no codebook to replace codes of"});
  }
  if (!kind.codebook && config.schedule.refit != "none") {
    unusable.push_back({"schedule.refit", "none", kind.name + " has no codebook to fit"});
  }
  if (waits_for_no_plateau(config.schedule, config.quantizer)) {
    unusable.push_back({"schedule.freeze", "never", kind.name + " has no commitment loss to watch",
                        "schedule.phases"});
  }
  if (config.dist.entropy == "all" && !kind.batch_entropy) {
    unusable.push_back({"dist.entropy", "own", kind.name + " has no entropy of a batch"});
  }
  return unusable;
}

void check_settings(const TokenizerConfig& config) {
  check_data(config.data);
  check_model(config.model);
  check_sizes(config.data, config.model);
  check_schedule(config.schedule, !config.train.init_from.empty());
  check_start(config);
  check_adversarial(config.adversarial);
  check_checkpoint(config.checkpoint, config.train.metrics, config.quantizer);
  check_eps(config.optimizer);
  check_lr_schedule("optimizer.schedule", config.optimizer.schedule);
  check_lr_schedule("adversarial.schedule", config.optimizer.discriminator_schedule);
  check_drift(config.drift, config.schedule);
  check_loss_weights(config.loss);
}

bool keeps_quantizer(const TokenizerConfig& config) {
  return config.quantizer.init == "model" && !config.train.init_from.empty();
}

bool decides_tensors(const std::string& key) {
  return is_named(key, {"model.", "quantizer.type", "quantizer.codes", "quantizer.normalise",
                        "quantizer.fsq.levels", "quantizer.lfq.bits", "quantizer.features.dim",
                        "quantizer.bridge.", "quantizer.affine.variant", "quantizer.var.scales"});
}

void require_fitting_start(TokenizerConfig here, TokenizerConfig there, const std::string& file) {
  const bool kept = keeps_quantizer(here);
  const auto ours = option_table(here).rows, theirs = option_table(there).rows;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto& key = ours[i].key;
    const bool of_quantizer = !key.starts_with("model.");
    const bool fixed =
        decides_tensors(key) || is_named(key, {"quantizer.cvq.distance", "quantizer.affine.rate"});
    if (!fixed || (of_quantizer && !kept) || ours[i].value() == theirs[i].value()) continue;
    throw UserError("train.init_from: {} has {} {}, and the recipe {}; they must be equal", file,
                    key, theirs[i].value(), ours[i].value());
  }
}

std::vector<std::string> settings_of_start(const TokenizerConfig& here, TokenizerConfig there) {
  const bool kept = here.quantizer.init == "model" || begins_with_decoder(here.schedule);
  std::vector<std::string> settings;
  for (const auto& row : option_table(there).rows) {
    const bool of_quantizer =
        is_named(row.key, {"quantizer.", "data.size"}) &&
        !is_named(row.key, {"quantizer.init", "quantizer.operators", "quantizer.features.file"});
    if (row.key.starts_with("model.") || (kept && of_quantizer)) {
      settings.push_back(row.key + "=" + row.value());
    }
  }
  return settings;
}

std::vector<std::string> essential_differences(const TokenizerConfig& here,
                                               const TokenizerConfig& there) {
  auto ours = here, theirs = there;  // a table binds to what it could change
  auto differences = option_table(ours).differences(option_table(theirs));
  // A meter alone as a rule; here its images decide about the freeze.
  const bool decides =
      here.schedule.freeze == "plateau" && here.schedule.commitment == "validation";
  if (decides && here.drift.images != there.drift.images) {
    differences.push_back(
        fmt::format("drift.images ({} here, {} there)", here.drift.images, there.drift.images));
  }
  return differences;
}

std::string config_reference() {
  TokenizerConfig defaults;
  std::string text = option_table(defaults).reference();
  text += "\nDefaults that depend on quantizer.type:\n";
  for (const auto& kind : quantizer_kinds()) {
    if (kind.defaults.empty()) continue;
    text += fmt::format("{:<12} {}\n", kind.name, fmt::join(kind.defaults, " "));
  }
  return text;
}

}  // namespace nsvq
