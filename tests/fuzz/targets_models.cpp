#include "nsvq/tokenizer/model_file.h"
#include "nsvq/tokenizer/open_model.h"
#include "nsvq/tokenizer/recipe.h"
#include "nsvq/tokenizer/tokenizer.h"
#include "tests/fuzz/target.h"

namespace nsvq {

namespace {

/// A model without a hash of its contents, which no mutation would get past.
std::map<std::string, Bytes> model_seeds() {
  Config config;
  config.data.size = 4;
  config.model.width = 1;
  config.model.multipliers = {1};
  config.model.blocks = 1;
  config.model.latent_dim = 1;
  config.quantizer.codes = 2;
  const Tokenizer model(config);
  constexpr auto settings =
      "model: {width: 1, multipliers: [1], blocks: 1, latent_dim: 1}\nquantizer: {codes: 2}\n";
  return {{"model.safetensors", written("model.safetensors", [&](const std::string& path) {
             write_safetensors(path, {named_tensors(*model), {{kModelConfigKey, settings}}});
           })}};
}

std::vector<FuzzTarget> model_targets() {
  return {
      {"recipe", [](std::span<const std::byte> bytes) { parse_config(text_of(bytes), "input"); },
       [] {
         return std::map<std::string, Bytes>{{"defaults.yaml", bytes_of(to_yaml(Config{}))}};
       }},
      {"model",
       [](std::span<const std::byte> bytes) { load_model(file_with(bytes, "model.safetensors")); },
       model_seeds, mend_safetensors},
  };
}

}  // namespace

std::vector<FuzzTarget> fuzz_targets() {
  auto all = reader_targets();
  for (const auto& some : {model_targets(), page_targets()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace nsvq
