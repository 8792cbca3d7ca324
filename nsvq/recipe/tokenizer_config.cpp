#include "nsvq/recipe/tokenizer_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "nsvq/core/error.h"
#include "nsvq/quantizers/quantizer.h"
#include "nsvq/recipe/other_words.h"
#include "nsvq/recipe/unusable_settings.h"

namespace nsvq {

namespace {

void check_sizes(const DataConfig& data, const ModelConfig& model) {
  if (data.size % model.stride() == 0) return;
  throw UserError(
      "data.size {} is not a multiple of {}, the stride of {} levels (model.multipliers)",
      data.size, model.stride(), model.multipliers.size());
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
    if (!config.train.init_from.empty()) defaults.emplace_back("quantizer.init=kmeans");
    return defaults;
  };
  table.chooser = "quantizer.type";
  table.unusable = [&config] { return unusable_settings(config); };
  table.check = [&config] { check_settings(config); };
  table.other_words = words_of_other_programs();
  table.help = "`nsvq config --reference` lists all keys";
  return table;
}

void check_settings(const TokenizerConfig& config) {
  check_data(config.data);
  check_model(config.model);
  check_sizes(config.data, config.model);
  check_schedule(config.schedule);
  check_adversarial(config.adversarial);
  check_checkpoint(config.checkpoint, config.train.metrics, config.quantizer);
  check_eps(config.optimizer);
  check_lr_schedule("optimizer.schedule", config.optimizer.schedule);
  check_lr_schedule("adversarial.schedule", config.optimizer.discriminator_schedule);
  check_drift(config.drift, config.schedule);
  check_loss_weights(config.loss);
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
