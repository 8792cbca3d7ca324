#include <fmt/format.h>

#include <stdexcept>

#include "nsvq/recipe/tokenizer_config.h"
#include "nsvq/tokenizer/exchange/import_weights.h"
#include "nsvq/tokenizer/layouts/layout.h"
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

TokenizerConfig tiny_model() {
  TokenizerConfig config;
  config.data.size = 8;
  config.model.width = 1;
  config.model.multipliers = {1};
  config.model.blocks = 1;
  config.model.latent_dim = 1;
  config.quantizer.codes = 2;
  return config;
}

/// Models without a hash of their contents, which no mutation would get past, and one with it.
std::map<std::string, Bytes> model_seeds() {
  const auto config = tiny_model();
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

/// The tensors of a small model as a program names them.
TensorMap in_layout(const char* layout, const std::vector<std::string>& settings) {
  auto config = load_config("", settings);
  config.data.size = 256;
  const auto ours = named_tensors(*Tokenizer(config));
  NamedShapes shapes;
  for (const auto& [name, tensor] : ours) shapes[name] = tensor.sizes().vec();
  const Renaming renamed(find_layout(layout).rules, Side::ours, names_in(shapes));
  TensorMap theirs;
  for (const auto& [name, tensor] : ours) {
    const auto there = renamed(name);
    if (there)
      theirs[there->name] = tensor.reshape(sizes_on(Side::theirs, there->form, shapes[name]));
  }
  return theirs;
}

/// A file of torch.save: numbers of all tensors in one storage.
Bytes pytorch_file(const TensorMap& tensors) {
  const auto number = [](int64_t value) {  // LONG1 of 4 bytes
    std::string opcodes = "\x8a\4";
    for (int shift = 0; shift < 32; shift += 8) opcodes += static_cast<char>(value >> shift);
    return opcodes;
  };
  const auto text = [](const std::string& value) {
    return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
  };
  const auto numbers = [&](at::IntArrayRef values) {
    std::string opcodes = "(";
    for (const int64_t value : values) opcodes += number(value);
    return opcodes + "t";
  };
  std::string pickle = "\x80\2}" + text("state_dict") + "}", storage;
  for (const auto& [name, tensor] : tensors) {
    const auto values = tensor.to(at::kFloat).contiguous();
    pickle += text(name) + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
              "ctorch\nFloatStorage\n" + text("0") + text("cpu") + number(0) + "tQ" +
              number(static_cast<int64_t>(storage.size() / sizeof(float))) +
              numbers(values.sizes()) + numbers(values.strides()) + "\x89}tRs";
    storage.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  return zip_of(
      {{"archive/data.pkl", bytes_of(pickle + "s.")}, {"archive/data/0", bytes_of(storage)}});
}

/// Weights of other programs, in both containers, for all that import does with them.
std::map<std::string, Bytes> foreign_seeds() {
  const std::vector<std::string> small = {"model.width=1", "model.multipliers=[1, 1]",
                                          "model.blocks=1", "model.latent_dim=2"};
  const auto with = [&](const std::vector<std::string>& more) {
    auto settings = small;
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  const auto simvq = in_layout("SimVQ", with({"quantizer.type=simvq", "quantizer.codes=4"}));
  const auto llamagen =
      in_layout("LlamaGen's VQ", with({"model.family=taming", "quantizer.type=vq",
                                       "quantizer.codes=4", "quantizer.normalise=true"}));
  const auto safetensors = [](const TensorMap& tensors) {
    return written("theirs.safetensors", [&](const std::string& path) {
      write_safetensors(path, {tensors, {}});
    });
  };
  return {{"simvq.safetensors", safetensors(simvq)},
          {"llamagen.safetensors", safetensors(llamagen)},
          {"simvq.ckpt", pytorch_file(simvq)}};
}

void mend_foreign(Bytes& bytes) {
  const bool zip = bytes.size() > 1 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'};
  zip ? mend_zip(bytes) : mend_safetensors(bytes);
}

/// Reader, layout, recipe by names and shapes, and the model of it.
void read_foreign(std::span<const std::byte> bytes) {
  import_model({file_with(bytes, "theirs.ckpt"), "", {}, false});
}

std::vector<FuzzTarget> model_targets() {
  return {
      {"recipe", read_recipe_file, recipe_seeds},
      {"overrides", read_overrides, override_seeds},
      {"model",
       [](std::span<const std::byte> bytes) { load_model(file_with(bytes, "model.safetensors")); },
       model_seeds, mend_safetensors},
      {"foreign_weights", read_foreign, foreign_seeds, mend_foreign},
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
