#include <stdexcept>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

/// Reads a recipe as a text and by name, with a base beside it. The settings written read back
/// equal.
void read_recipe_file(std::span<const std::byte> bytes) {
  static const auto base = file_with(bytes_of("seed: 3\n"), "base.yaml");
  const auto path = file_with(bytes, "recipe.yaml");
  const auto config = load_config(path, {});
  const auto text = to_yaml(config);
  const auto again = parse_config(text, "input");
  if (to_yaml(again) != text || !essential_differences(config, again).empty()) {
    throw std::logic_error("settings change when they are written");
  }
}

/// One key=value a line, as on a command line.
void read_overrides(std::span<const std::byte> bytes) {
  std::vector<std::string> overrides(1);
  for (const char c : text_of(bytes)) {
    c == '\n' ? void(overrides.emplace_back()) : overrides.back().push_back(c);
  }
  load_config("", overrides);
}

std::map<std::string, Bytes> recipe_seeds() {
  return {{"defaults.yaml", bytes_of(to_yaml(TokenizerConfig{}))},
          {"base.yaml", bytes_of("base: base.yaml\ntrain: {epochs: 2}\ndata.train: [a, \"b?\"]\n")},
          {"cvq.yaml", bytes_of("quantizer.type: cvq\nschedule: {freeze: never}\n")}};
}

std::map<std::string, Bytes> override_seeds() {
  return {{"few", bytes_of("train.epochs=2\ndata.train=[a-{0,1}.tar,b]\ndevice='cpu'\nseed=1")},
          {"twice", bytes_of("data.train=a\ndata.train=b\nmodel.multipliers=[1, 2]")}};
}

/// Models without a hash of their contents, which no mutation would get past, and one with it.
std::map<std::string, Bytes> model_seeds() {
  TokenizerConfig config;
  config.data.size = 8;
  config.model.width = 1;
  config.model.multipliers = {1};
  config.model.blocks = 1;
  config.model.latent_dim = 1;
  config.quantizer.codes = 2;
  const Tokenizer model(config);
  constexpr auto settings =
      "model: {width: 1, multipliers: [1], blocks: 1, latent_dim: 1}\nquantizer: {codes: 2}\n";
  const auto file = [](const TensorFile& contents) {
    return written("model.safetensors",
                   [&](const std::string& path) { write_safetensors(path, contents); });
  };
  const auto tensors = named_tensors(*model);
  return {
      {"model.safetensors", file({tensors, {{kModelConfigKey, settings}}})},
      {"format.safetensors", file({tensors, {{kModelConfigKey, settings}, {"nsvq.format", "1"}}})},
      {"hashed.safetensors", file(model_contents(tensors, config))}};
}

std::vector<FuzzTarget> model_targets() {
  return {
      {"recipe", read_recipe_file, recipe_seeds},
      {"overrides", read_overrides, override_seeds},
      {"model",
       [](std::span<const std::byte> bytes) { load_model(file_with(bytes, "model.safetensors")); },
       model_seeds, mend_safetensors},
  };
}

}  // namespace

std::vector<FuzzTarget> fuzz_targets() {
  auto all = reader_targets();
  const auto models = model_targets();
  all.insert(all.end(), models.begin(), models.end());
  return all;
}

}  // namespace nsvq
