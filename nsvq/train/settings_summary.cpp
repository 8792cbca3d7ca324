#include "nsvq/train/settings_summary.h"

#include <fmt/format.h>

#include <set>

#include "nsvq/tokenizer/recipe.h"

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

}  // namespace

std::string summarize_settings(const Config& config) {
  Config copy = config, defaults;  // a table binds to what it could change
  // Defaults depend on these.
  defaults.quantizer.type = config.quantizer.type;
  defaults.train.init_from = config.train.init_from;
  const auto usual = tokenizer_options(defaults);
  usual.load("");
  const auto table = tokenizer_options(copy);
  std::string text =
      "settings     those that matter most or differ from the defaults; config.yaml has all";
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    const bool differs = row.value() != usual.rows[i].value();
    const bool given = row.key == "train.init_from" && !config.train.init_from.empty();
    if (differs || given || always_shown().contains(row.key)) {
      text += fmt::format("\n  {}: {}", row.key, row.value());
    }
  }
  return text;
}

}  // namespace nsvq
