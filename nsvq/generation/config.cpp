#include "nsvq/generation/config.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "nsvq/core/error.h"
#include "nsvq/data/sources/patterns.h"
#include "nsvq/recipe/network_training.h"
#include "nsvq/recipe/settings_summary.h"
#include "nsvq/tokens/token_manifest.h"

namespace nsvq {

namespace {

constexpr std::string_view kSection = "generator.";
/// Settings of what is learned, which need no section on the command line.
constexpr std::array<std::string_view, 8> kDataKeys = {
    "tokenizer",         "tokens", "token_classes", "val_tokens",
    "val_token_classes", "codes",  "classes",       "family"};

std::vector<Option> own_generation_options(GenerationConfig& config) {
  return {
      {"generator.tokenizer", &config.tokenizer,
       "the tokenizer of the tokens: a run, a checkpoint or a model file; tokens of files train "
       "without one, but make no images",
       Range::any_path(), kNotOnResult},
      {"generator.tokens", &config.tokens,
       "tokens to train on in place of data.train: a folder of `nsvq tokenize`, or a .npy or "
       ".safetensors file of integers [n, h, w] or [n, length]",
       Range::any_path(), kNotOnResult},
      {"generator.token_classes", &config.token_classes,
       "classes of the images in such a file: .npy of integers [n], or text with one a line",
       Range::any_path(), kNotOnResult},
      {"generator.tokens_in", &config.tokens_in,
       "where generator.tokens are kept: memory, that of the device; files, the folder's, which "
       "are "
       "read as batches need them, for more tokens than memory holds",
       Range::one_of({"memory", "files"}), kNotOnResult},
      {"generator.val_tokens", &config.val_tokens,
       "tokens to evaluate on in place of data.val, as for generator.tokens", Range::any_path(),
       kNotOnResult},
      {"generator.val_token_classes", &config.val_token_classes, "classes of these",
       Range::any_path(), kNotOnResult},
      {"generator.codes", &config.codes,
       "number of codes; 0: the tokenizer's or the folder's, or one more than the largest in a "
       "file of tokens",
       Range::between(0, 1 << 30)},
      {"generator.classes", &config.classes,
       "classes of the training images that the network is told; 0: none", Range::between(0, 1e6)},
  };
}

/// The size of the images that a folder of tokens was made of, in place of data.size.
std::vector<std::string> image_size_of_tokens(const GenerationConfig& config) {
  const auto folder = home_path(config.tokens);
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_directory(folder, ignored)) return {};
  try {
    const auto settings = read_token_manifest(folder).settings;
    if (settings.image_height != settings.image_width) return {};
    return {"data.size=" + std::to_string(settings.image_width)};
  } catch (const UserError&) {
    return {};  // training says what is wrong with it
  }
}

}  // namespace

GenerationConfig::GenerationConfig() {
  data.flip = true;
  optimizer.beta1 = 0.9;
  optimizer.beta2 = 0.95;
  optimizer.clip_norm = 1;
  optimizer.ema_decay = 0.9999;
  train.epochs = 100;
  train.samples = 16;
}

OptionTable option_table(GenerationConfig& config) {
  OptionTable table;
  table.rows = joined({run_options(config), data_options(config.data),
                       own_generation_options(config), generator_options(config.generator),
                       sampling_options(config.sampling), network_training_options(config)});
  table.other_sections = sections_of_other_kinds(config.kind);
  table.dependent_defaults = [&config] {
    auto defaults = data_defaults(config.data);
    for (auto& one : image_size_of_tokens(config)) defaults.push_back(std::move(one));
    return defaults;
  };
  table.check = [&config] { check_generation_settings(config); };
  table.other_words = words_of_other_programs();
  table.help = "`nsvq generate config --reference` lists all keys";
  return table;
}

std::string training_data_key(const GenerationConfig& config) {
  return config.tokens.empty() ? "data.train" : "generator.tokens";
}

std::string summarize_settings(const GenerationConfig& config) {
  auto copy = config;
  GenerationConfig defaults;
  const std::set<std::string> of_images = {"data.train", "data.crop", "data.flip"};
  std::set<std::string> shown = {"seed",
                                 "generator.family",
                                 "generator.tokenizer",
                                 "generator.tokens",
                                 "generator.width",
                                 "generator.depth",
                                 "optimizer.lr",
                                 "train.epochs",
                                 "train.batch_size"};
  const bool images = config.tokens.empty();
  if (images) shown.insert(of_images.begin(), of_images.end());
  const auto note = [&](const std::string& key) -> std::string {
    if (images || !of_images.contains(key)) return "";
    return "  (without effect: generator.tokens is trained on)";
  };
  return summarize_settings(option_table(copy), option_table(defaults), shown, note);
}

void check_generation_settings(const GenerationConfig& config) {
  check_data(config.data);
  check_guidance(config.told(), config.sampling.guidance, "sampling.guidance");
  if (!config.token_classes.empty() && config.tokens.empty()) {
    throw UserError("generator.token_classes are those of generator.tokens, which is not set");
  }
  if (!config.val_token_classes.empty() && config.val_tokens.empty()) {
    throw UserError(
        "generator.val_token_classes are those of generator.val_tokens, which is not set");
  }
}

bool decides_generator(const std::string& key) {
  constexpr std::array<std::string_view, 3> of_training = {
      "generator.dropout", "generator.anneal_from", "generator.anneal_to"};
  if (std::ranges::find(of_training, key) != of_training.end()) return false;
  GenerationConfig config;
  for (const auto& row :
       joined({own_generation_options(config), generator_options(config.generator)})) {
    if (row.key == key) return row.effect == Effect::on_result;
  }
  return false;
}

std::vector<std::string> with_sections(std::vector<std::string> words) {
  for (auto& word : words) {
    const auto key = std::string_view(word).substr(0, word.find('='));
    const bool known = std::ranges::find(kDataKeys, key) != kDataKeys.end();
    if (known && key.size() < word.size()) word.insert(0, kSection);
  }
  return words;
}

GenerationConfig with_absolute_paths(GenerationConfig config) {
  change_paths(option_table(config), absolute_path);
  for (auto* path : {&config.tokenizer, &config.tokens, &config.token_classes, &config.val_tokens,
                     &config.val_token_classes}) {
    *path = std::filesystem::path(*path).lexically_normal().string();
  }
  return config;
}

}  // namespace nsvq
